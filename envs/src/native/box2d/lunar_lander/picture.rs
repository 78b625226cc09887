//! Pictures of LunarLander.

use super::{
    CHUNKS, DARK, HELIPAD_Y, HULL, LEGS, LunarLanderAction, LunarLanderDynamics, MOON, PURPLE, SCALE, WHITE,
    WIDTH, YELLOW,
};
use crate::{Frame, native::box2d::engine::Vec2, render::draw::Canvas};

impl<A: LunarLanderAction> LunarLanderDynamics<A> {
    /// Draws Gymnasium's picture, without the sparks of the engines.
    pub(super) fn picture(&self) -> Option<Frame> {
        let mut canvas = Canvas::new(600, 400)?;
        let scaled = |point: Vec2| (point.x * SCALE as f32, point.y * SCALE as f32);
        let top = 400.0;
        if self.world.states().count() == 0 {
            return Some(canvas.into_frame());
        }
        // The first piece of the ground lies below all others.
        for piece in self.world.outlines(MOON).skip(1) {
            let ends: Vec<_> = piece.map(scaled).collect();
            canvas.polygon(&[ends[0], ends[1], (ends[1].0, top), (ends[0].0, top)], [0; 3]);
        }
        for body in [HULL, LEGS[0], LEGS[1]] {
            for outline in self.world.outlines(body) {
                let mut corners: Vec<_> = outline.map(scaled).collect();
                canvas.polygon(&corners, PURPLE);
                corners.push(corners[0]);
                canvas.line(&corners, 1.0, DARK);
            }
        }
        let flag_y = (HELIPAD_Y * SCALE) as f32;
        for chunk in [CHUNKS / 2 - 1, CHUNKS / 2 + 1] {
            let x = (WIDTH / (CHUNKS - 1) as f64 * chunk as f64 * SCALE) as f32;
            let top = flag_y + 50.0;
            canvas.line(&[(x, flag_y), (x, top)], 1.0, WHITE);
            canvas.polygon(&[(x, top), (x, top - 10.0), (x + 25.0, top - 5.0)], YELLOW);
        }
        Some(canvas.into_frame())
    }
}
