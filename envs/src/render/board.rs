//! Pictures of boards: rows of tiles, the first row at the top.

use super::draw::{self, Canvas};
use crate::Frame;

pub(crate) const AGENT: [u8; 3] = [200, 60, 60];

/// Row and column of a field.
pub(crate) type Field = (usize, usize);

/// A picture of a board that is being drawn.
pub(crate) struct Board {
    canvas: Canvas,
    /// Upper left corner of the first field, in pixels.
    origin: (f32, f32),
    /// Width and height of a field, in pixels.
    size: (f32, f32),
}

impl Board {
    /// Creates a board with fields of `size` (width and height in pixels); `None` if the picture would be empty.
    pub(crate) fn new(rows: usize, columns: usize, size: (usize, usize)) -> Option<Self> {
        let width = columns * size.0;
        let height = rows * size.1;
        Self::on_canvas((width, height), (0, 0), size)
    }

    /// Creates a board on a larger canvas, with its first field `left` and `top` pixels inside.
    pub(crate) fn on_canvas(
        (width, height): (usize, usize),
        (left, top): (usize, usize),
        size: (usize, usize),
    ) -> Option<Self> {
        let canvas = Canvas::new(width as u32, height as u32)?;
        let origin = (left as f32, (height - top) as f32);
        Some(Self { canvas, origin, size: (size.0 as f32, size.1 as f32) })
    }

    /// Fills a field and draws its edge.
    pub(crate) fn tile(&mut self, field: Field, color: [u8; 3]) {
        let (left, bottom) = self.corner(field);
        let right = left + self.size.0;
        let top = bottom + self.size.1;
        let corners = [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)];
        self.canvas.polygon(&corners, color);
        self.canvas.line(&corners, 1.0, [180, 200, 230]);
    }

    /// Draws a disc in the middle of a field; `radius` is a fraction of the shorter side of the field.
    pub(crate) fn disc(&mut self, field: Field, radius: f32, color: [u8; 3]) {
        let (left, bottom) = self.corner(field);
        let (width, height) = self.size;
        self.canvas.circle((left + 0.5 * width, bottom + 0.5 * height), radius * width.min(height), color);
    }

    /// Draws a flag in the middle of a field.
    pub(crate) fn flag(&mut self, field: Field) {
        let (left, bottom) = self.corner(field);
        let at = |x: f32, y: f32| (left + x * self.size.0, bottom + y * self.size.1);
        let pole = [at(0.35, 0.15), at(0.35, 0.85)];
        let cloth = [at(0.35, 0.85), at(0.35, 0.55), at(0.75, 0.7)];
        self.canvas.line(&pole, 2.0, draw::BLACK);
        self.canvas.polygon(&cloth, [204, 204, 0]);
    }

    /// Draws a wall on the right edge of a field.
    pub(crate) fn wall_right_of(&mut self, field: Field) {
        let (left, bottom) = self.corner(field);
        let x = left + self.size.0;
        self.canvas.line(&[(x, bottom), (x, bottom + self.size.1)], 5.0, draw::BLACK);
    }

    pub(crate) fn into_frame(self) -> Frame {
        self.canvas.into_frame()
    }

    fn corner(&self, (row, column): Field) -> (f32, f32) {
        (self.origin.0 + column as f32 * self.size.0, self.origin.1 - (row + 1) as f32 * self.size.1)
    }
}
