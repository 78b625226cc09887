//! Pictures of BipedalWalker.

use super::{
    BipedalWalkerDynamics, PARTS, RAYS, SCALE, TERRAIN_HEIGHT, TERRAIN_STEP, WIDTH, terrain::LENGTH,
};
use crate::{
    Frame,
    native::box2d::engine::Vec2,
    render::draw::{BLACK, Canvas},
};

type Color = [u8; 3];
const SKY: Color = [215, 215, 255];
const WHITE: Color = [255; 3];
const GRAY: Color = [153; 3];
const GROUND: Color = [102, 153, 76];
const GRASS: [Color; 2] = [[76, 255, 76], [76, 204, 76]];
const RED: Color = [255, 0, 0];
const FLAG: Color = [230, 51, 0];
/// Fill and outline colours of the hull.
const HULL: [Color; 2] = [[127, 51, 229], [76, 76, 127]];
/// Fill and outline colours of the rear leg and of the front leg.
const LEGS: [[Color; 2]; 2] = [[[178, 101, 152], [127, 76, 101]], [[128, 51, 102], [77, 26, 51]]];

impl BipedalWalkerDynamics {
    /// Draws Gymnasium's picture: 20 m of the ground, a fifth of it behind the walker.
    pub(super) fn picture(&self) -> Option<Frame> {
        let mut canvas = Canvas::new(600, 400)?;
        canvas.polygon(&[(0.0, 0.0), (600.0, 0.0), (600.0, 400.0), (0.0, 400.0)], SKY);
        if !self.was_reset() {
            return Some(canvas.into_frame());
        }
        let hull = self.world.body(self.ground).position();
        let scroll = (f64::from(hull.x) - WIDTH / 5.0).max(0.0);
        let at = |[x, y]: [f64; 2]| (((x - scroll) * SCALE) as f32, (y * SCALE) as f32);
        let of = |point: Vec2| at([f64::from(point.x), f64::from(point.y)]);
        for cloud in &self.clouds {
            canvas.polygon(&cloud.map(|[x, y]| at([x + scroll / 2.0, y])), WHITE);
        }
        let ends = |i: usize| [i, i + 1].map(|i| [i as f64 * TERRAIN_STEP, self.heights[i]]);
        let seen = |i: &usize| ends(*i)[1][0] >= scroll && ends(*i)[0][0] <= scroll + WIDTH;
        for [from, to] in (0..LENGTH - 1).filter(seen).map(ends) {
            canvas.polygon(&[at(from), at(to), at([to[0], 0.0]), at([from[0], 0.0])], GROUND);
        }
        // In every hundred pictures, each ray is shown twice.
        let shown = self.pictures % 100;
        if shown < 2 * RAYS {
            let ray = if shown < RAYS { shown } else { 2 * RAYS - 1 - shown };
            let fraction = f64::from(self.lidar[ray]);
            let x = f64::from(hull.x);
            let y = f64::from(hull.y);
            let to = [x + fraction * self.rays[ray].0, y - fraction * self.rays[ray].1];
            canvas.line(&[at([x, y]), at(to)], 1.0, RED);
        }
        let mut body = |body: usize, [filling, outline]: [Color; 2]| {
            for corners in self.world.outlines(body) {
                let mut corners: Vec<_> = corners.map(of).collect();
                canvas.polygon(&corners, filling);
                corners.push(corners[0]);
                canvas.line(&corners, 1.0, outline);
            }
        };
        for obstacle in 0..self.ground - (LENGTH - 1) {
            body(obstacle, [WHITE, GRAY]);
        }
        for part in 1..PARTS {
            body(self.ground + part, LEGS[(part - 1) / 2]);
        }
        body(self.ground, HULL);
        for i in (0..LENGTH - 1).filter(seen) {
            canvas.line(&ends(i).map(at), 1.0, GRASS[i % 2]);
        }
        let x = TERRAIN_STEP * 3.0;
        let top = TERRAIN_HEIGHT + 50.0 / SCALE;
        canvas.line(&[at([x, TERRAIN_HEIGHT]), at([x, top])], 1.0, BLACK);
        let flag = [at([x, top]), at([x, top - 10.0 / SCALE]), at([x + 25.0 / SCALE, top - 5.0 / SCALE])];
        canvas.polygon(&flag, FLAG);
        canvas.line(&[flag[0], flag[1], flag[2], flag[0]], 1.0, BLACK);
        Some(canvas.into_frame())
    }
}
