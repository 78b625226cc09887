//! A chart of one line as SVG.

use std::fmt::Write;

/// Points above 0, the height in logarithmic scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chart<'a> {
    pub title: &'a str,
    pub x_label: &'a str,
    pub y_label: &'a str,
    /// Positions in logarithmic scale too.
    pub log_x: bool,
    /// From left to right; every position is labelled.
    pub points: &'a [(f64, f64)],
}

const SIZE: (f64, f64) = (640.0, 400.0);
/// The plot's left, right, top and bottom.
const PLOT: (f64, f64, f64, f64) = (80.0, 620.0, 40.0, 340.0);

impl Chart<'_> {
    /// The text of the file.
    pub(crate) fn draw(&self) -> String {
        let (left, right, top, bottom) = PLOT;
        let xs: Vec<f64> = self.points.iter().map(|&(x, _)| if self.log_x { x.ln() } else { x }).collect();
        let ys: Vec<f64> = self.points.iter().map(|&(_, y)| y).collect();
        let ticks = ticks(&ys);
        let place = |value: f64, (low, high): (f64, f64), (from, to): (f64, f64)| {
            from + (value - low) / (high - low) * (to - from)
        };
        let range = |values: &[f64]| {
            let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or_default();
            (fold(f64::min), fold(f64::max))
        };
        let (low, high) = range(&ticks);
        let x_range = range(&xs);
        let y_range = (low.ln(), high.ln());
        let x_at = |x: f64| place(x, x_range, (left + 20.0, right - 20.0));
        let y_at = |y: f64| place(y.ln(), y_range, (bottom, top));

        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" \
             font-size=\"12\" text-anchor=\"middle\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
            SIZE.0, SIZE.1
        );
        let mut text = |x: f64, y: f64, more: &str, words: &str| {
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {more}>{words}</text>");
        };
        let middle = (top + bottom) / 2.0;
        text((left + right) / 2.0, 24.0, "font-size=\"15\"", self.title);
        text((left + right) / 2.0, 384.0, "", self.x_label);
        text(20.0, middle, &format!("transform=\"rotate(-90 20 {middle})\""), self.y_label);
        for (&x, (label, _)) in xs.iter().zip(self.points) {
            text(x_at(x), bottom + 18.0, "", &label.to_string());
        }
        for &tick in &ticks {
            text(left - 8.0, y_at(tick) + 4.0, "text-anchor=\"end\"", &tick.to_string());
        }
        for &tick in &ticks {
            let y = y_at(tick);
            let _ = writeln!(svg, "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>");
        }
        let line: Vec<String> =
            xs.iter().zip(&ys).map(|(&x, &y)| format!("{:.1},{:.1}", x_at(x), y_at(y))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for (&x, &y) in xs.iter().zip(&ys) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#1f77b4\"/>",
                x_at(x),
                y_at(y)
            );
        }
        svg + "</svg>\n"
    }
}

/// 1, 2 and 5 times powers of ten, from the last below all values to the first above.
fn ticks(values: &[f64]) -> Vec<f64> {
    let steps = (-9..9).flat_map(|power: i32| [1.0, 2.0, 5.0].map(|digit| digit * 10.0_f64.powi(power)));
    let steps: Vec<f64> = steps.collect();
    let from = steps.iter().rposition(|tick| values.iter().all(|value| tick <= value)).unwrap_or(0);
    let to =
        steps.iter().position(|tick| values.iter().all(|value| tick >= value)).unwrap_or(steps.len() - 1);
    steps[from..=to.max(from + 1)].to_vec()
}
