//! Plots as SVG. Colours are classes of the page's style, so that one picture serves light and dark paper.

use std::fmt::Write;

use super::text::{escape, short};

/// Classes of colours, in the order in which series get them.
pub(super) const COLOURS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Round numbers within the range, at most about `want`.
pub(super) fn ticks(low: f64, high: f64, want: usize) -> Vec<f64> {
    let span = if high > low { high - low } else { 1.0 };
    if !span.is_finite() || !low.is_finite() {
        return Vec::new();
    }
    let raw = span / want.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= raw * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil();
    let marks = (0..=want as u32 + 1).map(|i| (first + f64::from(i)) * step);
    marks.take_while(|mark| *mark <= low + span + 1e-9 * step).map(|mark| mark + 0.0).collect()
}

/// The smallest and the largest number; `None` if there is no number.
pub(super) fn range<'a>(values: impl IntoIterator<Item = &'a f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().copied().filter(|x| x.is_finite());
    finite.fold(None, |found, x| match found {
        None => Some((x, x)),
        Some((low, high)) => Some((low.min(x), high.max(x))),
    })
}

/// Whether the numbers of the range differ too little to be drawn apart.
fn is_constant((low, high): (f64, f64)) -> bool {
    high / 2.0 - low / 2.0 < f64::MIN_POSITIVE
}

/// The range with `share` of its length more at both ends. A single number gets a twentieth of itself, and 0 gets 0.05, so that it
/// lies in the middle. The ends are finite.
pub(super) fn widened((low, high): (f64, f64), share: f64) -> (f64, f64) {
    let more = match is_constant((low, high)) {
        true if low.abs() < f64::MIN_POSITIVE / f64::EPSILON => 0.05,
        true => 0.05 * low.abs(),
        // The length itself may be too large for a number.
        false => 2.0 * share * (high / 2.0 - low / 2.0),
    };
    ((low - more).max(f64::MIN), (high + more).min(f64::MAX))
}

/// Where `at` lies in the range: 0 at its lower end, 1 at its upper end, and 0.5 in a range without length. Halves, because
/// the length itself may be too large for a number.
pub(super) fn share_of(at: f64, (low, high): (f64, f64)) -> f64 {
    let share = (at / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
    if share.is_finite() { share } else { 0.5 }
}

/// Reduces a line to at most about `most` points: of each piece it keeps the smallest and the largest, so that no spike is
/// lost, and a gap stays a gap.
pub(super) fn thinned(xs: &[f64], ys: &[f64], most: usize) -> Vec<(f64, f64)> {
    let all = || xs.iter().copied().zip(ys.iter().copied()).filter(|(x, _)| x.is_finite());
    if xs.len() <= most {
        return all().collect();
    }
    let points: Vec<(f64, f64)> = all().collect();
    let piece = points.len().div_ceil((most / 2).max(1)).max(1);
    let mut kept = Vec::with_capacity(most + 2);
    for (number, part) in points.chunks(piece).enumerate() {
        let finite = || part.iter().enumerate().filter(|(_, (_, y))| y.is_finite());
        let low = finite().min_by(|a, b| a.1.1.total_cmp(&b.1.1)).map(|(i, _)| i);
        let high = finite().max_by(|a, b| a.1.1.total_cmp(&b.1.1)).map(|(i, _)| i);
        let gap = part.iter().position(|(_, y)| !y.is_finite());
        let is_last = (number + 1) * piece >= points.len();
        let ends = [(number == 0).then_some(0), is_last.then(|| part.len() - 1)];
        let mut picked: Vec<usize> = [low, high, gap].into_iter().chain(ends).flatten().collect();
        picked.sort_unstable();
        picked.dedup();
        kept.extend(picked.into_iter().map(|i| part[i]));
    }
    kept
}

/// Size and borders of a plot in units of its picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    is_small: bool,
}

impl Frame {
    /// A large plot, with room for names at the ends of its lines.
    pub(super) fn large(width: f64, height: f64) -> Frame {
        Frame { width, height, left: 52.0, right: 110.0, top: 28.0, bottom: 36.0, is_small: false }
    }

    /// The same plot with more room for names.
    pub(super) fn with_names(self, right: f64) -> Frame {
        Frame { right, ..self }
    }

    /// Width and height.
    pub(super) fn size(self) -> (f64, f64) {
        (self.width, self.height)
    }

    /// A small plot without an x axis.
    pub(super) fn small() -> Frame {
        Frame { width: 250.0, height: 112.0, left: 40.0, right: 8.0, top: 22.0, bottom: 12.0, is_small: true }
    }
}

/// A plot. What is added first lies lowest; names stand at the ends of lines.
pub(super) struct Plot {
    frame: Frame,
    x: (f64, f64),
    y: (f64, f64),
    x_name: String,
    y_name: String,
    body: String,
    ends: Vec<End>,
}

struct End {
    x: f64,
    y: f64,
    name: String,
    class: String,
}

impl Plot {
    /// Begins a plot over these ranges.
    pub(super) fn new(frame: Frame, x: (f64, f64), y: (f64, f64), x_name: &str, y_name: &str) -> Plot {
        let x = if is_constant(x) { widened(x, 0.0) } else { x };
        let y = widened(y, 0.04);
        Plot {
            frame,
            x,
            y,
            x_name: x_name.into(),
            y_name: y_name.into(),
            body: String::new(),
            ends: Vec::new(),
        }
    }

    fn px(&self, x: f64) -> f64 {
        let Frame { left, right, width, .. } = self.frame;
        left + share_of(x, self.x) * (width - left - right)
    }

    fn py(&self, y: f64) -> f64 {
        let Frame { top, bottom, height, .. } = self.frame;
        height - bottom - share_of(y, self.y) * (height - top - bottom)
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let mut out = String::with_capacity(points.len() * 12);
        let mut pen = 'M';
        for (x, y) in points {
            if !y.is_finite() {
                pen = 'M';
                continue;
            }
            let _ = write!(out, "{pen}{:.1} {:.1}", self.px(*x), self.py(*y));
            pen = 'L';
        }
        out
    }

    /// Adds a line; `name` stands at its end.
    pub(super) fn line(&mut self, points: &[(f64, f64)], class: &str, name: Option<&str>) {
        let path = self.path(points);
        let shown = name.map(|name| format!(" data-name=\"{}\"", escape(name))).unwrap_or_default();
        let _ = write!(self.body, "<path class=\"line {class}\"{shown} d=\"{path}\"/>");
        let numbers = || points.iter().filter(|(_, y)| y.is_finite());
        // A single point makes no line.
        if numbers().count() == 1 {
            self.dots(points, class, &[]);
        }
        if let (Some(name), Some((x, y))) = (name, numbers().next_back()) {
            self.end(*x, *y, name, class);
        }
    }

    /// Adds a name beside a point.
    pub(super) fn end(&mut self, x: f64, y: f64, name: &str, class: &str) {
        let end = End { x: self.px(x), y: self.py(y), name: name.into(), class: class.into() };
        self.ends.push(end);
    }

    /// Adds the area between two lines over the same places.
    pub(super) fn band(&mut self, low: &[(f64, f64)], high: &[(f64, f64)], class: &str) {
        let back: Vec<(f64, f64)> = low.iter().rev().copied().collect();
        let path = self.path(high) + &self.path(&back).replacen('M', "L", 1);
        let _ = write!(self.body, "<path class=\"band {class}\" d=\"{path}Z\"/>");
    }

    /// Adds dots, each with the text that a pointer on it shows.
    pub(super) fn dots(&mut self, points: &[(f64, f64)], class: &str, titles: &[String]) {
        let r = if self.frame.is_small { 2 } else { 4 };
        for (i, (x, y)) in points.iter().enumerate().filter(|(_, (_, y))| y.is_finite()) {
            let title =
                titles.get(i).map(|title| format!("<title>{}</title>", escape(title))).unwrap_or_default();
            let (x, y) = (self.px(*x), self.py(*y));
            let _ = write!(
                self.body,
                "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\">{title}</circle>"
            );
        }
    }

    /// Adds a dashed horizontal line with a name.
    pub(super) fn rule(&mut self, y: f64, name: &str) {
        let (left, right) = (self.frame.left, self.frame.width - self.frame.right);
        let _ = write!(self.body, "<path class=\"rule\" d=\"M{left} {:.1}H{right}\"/>", self.py(y));
        self.end(self.x.1, y, name, "muted");
    }

    /// Adds a thin vertical mark with the text that a pointer on it shows.
    pub(super) fn mark(&mut self, x: f64, class: &str, title: &str) {
        let (top, bottom) = (self.frame.top, self.frame.height - self.frame.bottom);
        let top = if class == "bad" { bottom - 10.0 } else { top };
        let title = escape(title);
        let _ = write!(
            self.body,
            "<path class=\"mark {class}\" d=\"M{:.1} {top}V{bottom}\"><title>{title}</title></path>",
            self.px(x)
        );
    }

    /// Ends the plot. `says` is the sentence for those who do not see it.
    pub(super) fn svg(mut self, says: &str) -> String {
        let Frame { width, height, left, right, top, bottom, is_small } = self.frame;
        let says = escape(says);
        let ((x0, x1), (y0, y1)) = (self.x, self.y);
        let data = if is_small {
            String::new()
        } else {
            format!(
                " data-plot=\"{x0} {x1} {y0} {y1} {left} {} {top} {}\" data-x=\"{}\"",
                width - right,
                height - bottom,
                escape(&self.x_name)
            )
        };
        let mut out =
            format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{says}\"{data}>");
        for y in ticks(self.y.0, self.y.1, if is_small { 2 } else { 6 }) {
            let at = self.py(y);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{left} {at:.1}H{:.1}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                width - right,
                left - 6.0,
                at + 4.0,
                short(y)
            );
        }
        for x in ticks(self.x.0, self.x.1, 5).into_iter().filter(|_| !is_small) {
            let (at, below) = (self.px(x), height - bottom + 16.0);
            let x = short(x);
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{x}</text>"
            );
        }
        let _ = write!(out, "<text class=\"name\" x=\"0\" y=\"12\">{}</text>", escape(&self.y_name));
        if !self.x_name.is_empty() {
            let (x, y, name) = (width - right, height - 2.0, escape(&self.x_name));
            let _ = write!(out, "<text class=\"tick\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>");
        }
        out += &self.body;
        self.part_ends();
        for End { x, y, name, class } in &self.ends {
            let name = escape(name);
            let _ = write!(
                out,
                "<text class=\"end {class}\" data-of=\"{name}\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                x + 8.0,
                y + 4.0
            );
        }
        out + "</svg>"
    }

    /// Moves the names at the ends of lines apart, so that none lies on another.
    fn part_ends(&mut self) {
        const APART: f64 = 15.0;
        self.ends.sort_by(|a, b| a.y.total_cmp(&b.y));
        for i in 1..self.ends.len() {
            let above = self.ends[i - 1].y;
            self.ends[i].y = self.ends[i].y.max(above + APART);
        }
        let mut lowest = self.frame.height - self.frame.bottom;
        for end in self.ends.iter_mut().rev() {
            end.y = end.y.min(lowest);
            lowest = end.y - APART;
        }
    }
}

/// A bar of parts of a whole: each with its name, its share and its class.
pub(super) fn stacked(parts: &[(&str, f64, &str)]) -> String {
    let says: Vec<String> =
        parts.iter().map(|(name, share, _)| format!("{name} {:.0} %", 100.0 * share)).collect();
    let says = escape(&says.join(", "));
    let mut out = format!("<svg viewBox=\"0 0 1000 26\" role=\"img\" aria-label=\"{says}\">");
    let mut x = 0.0;
    for (name, share, class) in parts {
        let width = share * 1000.0;
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"0\" width=\"{:.1}\" height=\"26\" rx=\"2\"><title>{} {:.1} %</title></rect>",
            (width - 2.0).max(0.5),
            escape(name),
            100.0 * share
        );
        x += width;
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert_eq!(ticks(0.0, 500.0, 5), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        assert_eq!(ticks(-0.03, 0.01, 2), [-0.02, 0.0]);
        assert_eq!(ticks(3.0, 3.0, 5).len(), 6);
        assert!(ticks(f64::NAN, 1.0, 5).is_empty());
    }

    #[test]
    fn a_single_number_of_any_size_lies_in_the_middle_of_its_range_and_every_end_is_finite() {
        for number in [0.0, 5e-324, 1e-300, 3e-7, -2e-5, 1.0, -40.0, 1e300, f64::MAX] {
            let (low, high) = widened((number, number), 0.04);
            assert!(low.is_finite() && high.is_finite() && high > low, "{number}: {low} to {high}");
            let share = share_of(number, (low, high));
            assert!((share - 0.5).abs() < 1e-9 || number == f64::MAX, "{number}: {share}");
            // Not a thousand times as wide as the number itself, but for 0.
            assert!(number.abs() < 1e-200 || high - low <= 0.11 * number.abs(), "{number}: {low} to {high}");
        }
        assert_eq!(widened((0.0, 100.0), 0.04), (-4.0, 104.0));
        let all = widened((f64::MIN, f64::MAX), 0.04);
        assert_eq!([f64::MIN, 0.0, f64::MAX].map(|x| share_of(x, all)), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn a_long_line_keeps_its_spikes_its_gaps_and_both_ends() {
        let xs: Vec<f64> = (0..100_000).map(f64::from).collect();
        let mut ys = vec![1.0; xs.len()];
        ys[54_321] = 9.0;
        ys[77_777] = f64::NAN;
        let kept = thinned(&xs, &ys, 1000);
        assert!(kept.len() <= 1010, "{}", kept.len());
        assert!(kept.contains(&(54_321.0, 9.0)) && kept.iter().any(|(x, y)| *x == 77_777.0 && y.is_nan()));
        assert_eq!((kept[0].0, kept[kept.len() - 1].0), (0.0, 99_999.0));
    }

    #[test]
    fn names_at_the_ends_do_not_lie_on_each_other_and_a_gap_lifts_the_pen() {
        let mut plot = Plot::new(Frame::large(760.0, 330.0), (0.0, 3.0), (0.0, 1.0), "steps", "return");
        for i in 0..20 {
            plot.line(
                &[(0.0, 0.5), (1.0, f64::NAN), (2.0, 0.5), (3.0, 0.5)],
                "a",
                Some(&format!("line {i}")),
            );
        }
        assert_eq!(plot.body.matches("M").count(), 40);
        plot.part_ends();
        assert!(plot.ends.windows(2).all(|pair| pair[1].y - pair[0].y >= 14.99));
        assert!(plot.ends[19].y <= 330.0 - 36.0);
    }
}
