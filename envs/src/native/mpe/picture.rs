//! Pictures of particle environments as mpe2 draws them: 700 x 700 pixels, scaled so that all bodies are visible. The
//! words of agents are not shown.

use super::world::World;
use crate::{Frame, render::draw};

/// Draws a world; `zoom` scales the size of bodies, not their distances.
pub(super) fn draw(world: &World, zoom: f64) -> Option<Frame> {
    const SIZE: f64 = 700.0;
    const RIM: f32 = 1.0;
    let range = world.range();
    let mut canvas = draw::Canvas::new(700, 700)?;
    for body in world.agents.iter().chain(&world.landmarks) {
        let [x, y] = body.position.map(|x| (SIZE / 2.0 + (x / range * SIZE / 2.0) * 0.9) as f32);
        let radius = (body.size * SIZE / 2.0 * zoom) as f32;
        canvas.circle((x, y), radius, draw::BLACK);
        canvas.circle((x, y), (radius - RIM).max(0.0), body.color.map(|part| (200.0 * part) as u8));
    }
    Some(canvas.into_frame())
}
