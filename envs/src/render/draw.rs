//! A white canvas whose y axis points up, for pictures of small environments.

use tiny_skia::{FillRule, LineCap, Paint, PathBuilder, Pixmap, Rect, Stroke, Transform};

use crate::Frame;

pub(crate) const BLACK: [u8; 3] = [0, 0, 0];

type Point = (f32, f32);

/// A picture that is being drawn.
pub(crate) struct Canvas {
    pixels: Pixmap,
    /// Transform that makes the y axis point up.
    flip: Transform,
}

impl Canvas {
    /// Creates a white canvas, sizes in pixels; `None` if a side is 0.
    pub(crate) fn new(width: u32, height: u32) -> Option<Self> {
        let mut pixels = Pixmap::new(width, height)?;
        pixels.fill(tiny_skia::Color::WHITE);
        Some(Self { pixels, flip: Transform::from_row(1.0, 0.0, 0.0, -1.0, 0.0, height as f32) })
    }

    pub(crate) fn polygon(&mut self, corners: &[Point], color: [u8; 3]) {
        let mut path = path_through(corners);
        path.close();
        self.fill(path, color);
    }

    pub(crate) fn circle(&mut self, (x, y): Point, radius: f32, color: [u8; 3]) {
        let mut path = PathBuilder::new();
        path.push_circle(x, y, radius);
        self.fill(path, color);
    }

    /// Draws a line of one pixel in height over the whole width.
    pub(crate) fn horizontal_line(&mut self, y: f32, color: [u8; 3]) {
        if let Some(rect) = Rect::from_xywh(0.0, y, self.pixels.width() as f32, 1.0) {
            self.pixels.fill_rect(rect, &paint(color), self.flip, None);
        }
    }

    /// Draws a line through all points.
    pub(crate) fn line(&mut self, points: &[Point], width: f32, color: [u8; 3]) {
        let stroke = Stroke { width, line_cap: LineCap::Round, ..Stroke::default() };
        if let Some(path) = path_through(points).finish() {
            self.pixels.stroke_path(&path, &paint(color), &stroke, self.flip, None);
        }
    }

    /// Draws three quarters of a circle with an arrowhead at the end.
    pub(crate) fn turning_arrow(
        &mut self,
        center: Point,
        radius: f32,
        counterclockwise: bool,
        color: [u8; 3],
    ) {
        let at = |degrees: f32, radius: f32| {
            let angle = if counterclockwise { degrees } else { 180.0 - degrees };
            turn((radius, 0.0), angle.to_radians(), center)
        };
        let arc: Vec<_> = (0..=27).map(|i| at(90.0 + 10.0 * i as f32, radius)).collect();
        self.line(&arc, 0.06 * radius, color);
        self.polygon(&[at(355.0, 0.87 * radius), at(355.0, 1.13 * radius), at(375.0, radius)], color);
    }

    pub(crate) fn into_frame(self) -> Frame {
        // All pixels are opaque, so premultiplied colours equal plain ones.
        let rgb =
            self.pixels.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        Frame { width: self.pixels.width() as usize, height: self.pixels.height() as usize, rgb }
    }

    fn fill(&mut self, path: PathBuilder, color: [u8; 3]) {
        if let Some(path) = path.finish() {
            self.pixels.fill_path(&path, &paint(color), FillRule::Winding, self.flip, None);
        }
    }
}

/// Rotates a point counterclockwise around the origin by `angle` radians and moves it by `center`.
pub(crate) fn turn((x, y): Point, angle: f32, center: Point) -> Point {
    let (sin, cos) = angle.sin_cos();
    (center.0 + x * cos - y * sin, center.1 + x * sin + y * cos)
}

fn path_through(points: &[Point]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    path
}

fn paint([red, green, blue]: [u8; 3]) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}
