//! Pictures of Go boards.

use crate::{Frame, render::draw};

/// Draws a square of `side` pixels as PettingZoo does: point `size * i + j` is in column `i` and row `j` from the top.
pub(super) fn draw(board: &[u8], size: usize, side: usize) -> Option<Frame> {
    const WOOD: [u8; 3] = [220, 179, 92];
    const WHITE: [u8; 3] = [255; 3];
    let mut canvas = draw::Canvas::new(side as u32, side as u32)?;
    let (side, tile) = (side as f32, side as f32 / size as f32);
    let at = |index: usize| tile * (index as f32 + 0.5);
    canvas.polygon(&[(0.0, 0.0), (side, 0.0), (side, side), (0.0, side)], WOOD);
    for line in 0..size {
        let first = at(0);
        let last = at(size - 1);
        canvas.line(&[(at(line), first), (at(line), last)], 0.04 * tile, draw::BLACK);
        canvas.line(&[(first, at(line)), (last, at(line))], 0.04 * tile, draw::BLACK);
    }
    for (point, &stone) in board.iter().enumerate().filter(|(_, stone)| **stone != super::position::EMPTY) {
        let center = (at(point / size), side - at(point % size));
        canvas.circle(center, tile * 5.0 / 12.0, draw::BLACK);
        if stone == 2 {
            canvas.circle(center, tile * 4.6 / 12.0, WHITE);
        }
    }
    Some(canvas.into_frame())
}
