//! Parts of the screen: a chart, a line of small bars, numbers.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};

use super::super::plot::{range, share_of, thinned, widened};
use super::super::text::{count, short};

/// A line or dots of a chart.
pub(super) struct Curve {
    pub(super) xs: Vec<f64>,
    pub(super) ys: Vec<f64>,
    pub(super) colour: Color,
    pub(super) is_dots: bool,
}

/// Draws a chart of curves with its title in the first row. Curves that come later lie above.
pub(super) fn chart(frame: &mut Frame<'_>, area: Rect, title: Line<'_>, x_name: &str, curves: &[Curve]) {
    let [above, below] = rows(area, 1);
    frame.render_widget(Paragraph::new(title), above);
    let x = range(curves.iter().flat_map(|curve| &curve.xs));
    let y = range(curves.iter().flat_map(|curve| &curve.ys));
    let (Some(x), Some(y)) = (x, y) else {
        frame.render_widget(Paragraph::new("no number yet"), below);
        return;
    };
    let x = if x.1 > x.0 { (x.0.min(0.0).max(x.0 - x.1), x.1) } else { widened(x, 0.0) };
    let y = widened(y, 0.05);
    // A column of the terminal has two columns of braille dots.
    let most = usize::from(below.width).max(10) * 4;
    let mut drawn: Vec<Drawn> = curves.iter().flat_map(|curve| pieces(curve, most)).collect();
    // Shares of the ranges: with coordinates near 1e308 the chart would compute without end.
    for (px, py) in drawn.iter_mut().flat_map(|piece| &mut piece.points) {
        (*px, *py) = (share_of(*px, x), share_of(*py, y));
    }
    let sets = drawn.iter().map(|Drawn { points, colour, is_dots }| {
        let (marker, kind) = match is_dots {
            true => (Marker::Dot, GraphType::Scatter),
            false => (Marker::Braille, GraphType::Line),
        };
        Dataset::default().marker(marker).graph_type(kind).style(*colour).data(points)
    });
    let grey = Style::new().fg(Color::DarkGray);
    let (left, right) = (short(x.0.max(0.0)), format!("{} {x_name}", short(x.1)));
    let x_axis = Axis::default().bounds([0.0, 1.0]).labels([left, right]).style(grey);
    let middle = f64::midpoint(y.0, y.1);
    let y_axis = Axis::default()
        .bounds([0.0, 1.0])
        .labels([y.0, middle, y.1].map(|y| format!("{:>7}", short(y))))
        .style(grey);
    frame
        .render_widget(Chart::new(sets.collect()).x_axis(x_axis).y_axis(y_axis).legend_position(None), below);
}

struct Drawn {
    points: Vec<(f64, f64)>,
    colour: Color,
    is_dots: bool,
}

/// A curve's pieces between its gaps, with few points.
fn pieces(curve: &Curve, most: usize) -> Vec<Drawn> {
    let points = match curve.is_dots {
        true => curve.xs.iter().copied().zip(curve.ys.iter().copied()).collect(),
        false => thinned(&curve.xs, &curve.ys, most),
    };
    let whole = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let pieces = points.split(|point| !whole(point)).filter(|piece| !piece.is_empty());
    let drawn = |piece: &[(f64, f64)]| {
        // A line of one point has no length, but a dot is seen.
        let is_dots = curve.is_dots || piece.len() == 1;
        Drawn { points: piece.to_vec(), colour: curve.colour, is_dots }
    };
    pieces.map(drawn).collect()
}

/// A line of `width` small bars: each as high as the mean of its share of the values. A share without a number is empty.
pub(super) fn bars(values: &[f64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let width = width.min(values.len());
    let share = |i: usize| {
        let part = &values[i * values.len() / width..(i + 1) * values.len() / width];
        let numbers: Vec<f64> = part.iter().copied().filter(|x| x.is_finite()).collect();
        numbers.iter().sum::<f64>() / numbers.len() as f64
    };
    let means: Vec<f64> = (0..width).map(share).collect();
    let Some((low, high)) = range(&means) else { return " ".repeat(width) };
    let bar = |mean: &f64| {
        if !mean.is_finite() {
            return ' ';
        }
        let height = if high > low { (mean - low) / (high - low) * 7.0 } else { 0.0 };
        BARS.get(height.round() as usize).copied().unwrap_or(' ')
    };
    means.iter().map(bar).collect()
}

/// Writes a whole number with its thousands parted.
pub(super) fn whole(x: f64) -> String {
    count(x).replace('\u{202f}', ",")
}

/// Parts `height` rows off the top of an area.
pub(super) fn rows(area: Rect, height: u16) -> [Rect; 2] {
    let height = height.min(area.height);
    let below = Rect { y: area.y + height, height: area.height - height, ..area };
    [Rect { height, ..area }, below]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_whole_line_of_values_and_a_gap_is_empty() {
        assert_eq!(bars(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 20), "▁▂▃▄▅▆▇█");
        assert_eq!(bars(&[0.0, 0.0, 7.0, 7.0], 2), "▁█");
        assert_eq!(bars(&[1.0, f64::NAN, 1.0], 3), "▁ ▁");
        assert_eq!(bars(&[f64::NAN], 3), " ");
        assert_eq!(bars(&[], 3), "");
    }
}
