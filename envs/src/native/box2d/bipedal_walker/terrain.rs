//! The random terrain of BipedalWalker.

use super::{SCALE, TERRAIN_HEIGHT, TERRAIN_STEP, point};
use crate::{
    NpRandom,
    native::box2d::engine::{BodyDef, Edge, FixtureDef, Polygon, Shape, Vec2, World},
};

/// Number of points of the ground.
pub(super) const LENGTH: usize = 200;
pub(super) const CLOUDS: usize = LENGTH / 20;
/// Upper bound of the length of a stretch of grass, in points.
pub(super) const GRASS: i64 = 10;
/// Number of flat points at the start.
pub(super) const START_PAD: usize = 20;
const FRICTION: f32 = 2.5;

type Point = [f64; 2];
/// The five corners of a cloud, in meters.
pub(super) type Cloud = [Point; 5];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Grass,
    Stump,
    Stairs,
    Pit,
}

/// Creates the bodies of the ground, obstacles first, and returns their number; writes the points' heights to
/// `heights`.
pub(super) fn generate(
    world: &mut World,
    random: &mut NpRandom,
    hardcore: bool,
    heights: &mut [f64; LENGTH],
) -> usize {
    let mut bodies = obstacles_and_heights(world, random, hardcore, heights);
    for i in 0..LENGTH - 1 {
        let [from, to] = [i, i + 1].map(|i| point(i as f64 * TERRAIN_STEP, heights[i]));
        create_static(world, Shape::Edge(Edge::new(from, to)));
        bodies += 1;
    }
    bodies
}

fn obstacles_and_heights(
    world: &mut World,
    random: &mut NpRandom,
    hardcore: bool,
    heights: &mut [f64; LENGTH],
) -> usize {
    const STEP: f64 = TERRAIN_STEP;
    let mut kind = Kind::Grass;
    let mut velocity = 0.0;
    let mut y = TERRAIN_HEIGHT;
    let mut original_y = 0.0;
    let mut counter = START_PAD as i64;
    // True at the first point of an obstacle.
    let mut is_first = false;
    let mut stair_steps = 0;
    let mut stair_width = 0;
    let mut stair_height = 0;
    let mut bodies = 0;
    for (i, height) in heights.iter_mut().enumerate() {
        let x = i as f64 * STEP;
        let mut obstacle = |corners: [Point; 4]| {
            let corners = corners.map(|[x, y]| point(x, y));
            create_static(world, Shape::Polygon(Polygon::hull(&corners)));
            bodies += 1;
        };
        match (kind, is_first) {
            (Kind::Grass, false) => {
                velocity = 0.8 * velocity + 0.01 * sign(TERRAIN_HEIGHT - y);
                if i > START_PAD {
                    velocity += random.uniform(-1.0, 1.0) / SCALE;
                }
                y += velocity;
            }
            (Kind::Pit, true) => {
                counter = random.integers(3, 5);
                let wall = [[x, y], [x + STEP, y], [x + STEP, y - 4.0 * STEP], [x, y - 4.0 * STEP]];
                obstacle(wall);
                obstacle(wall.map(|[x, y]| [x + STEP * counter as f64, y]));
                counter += 2;
                original_y = y;
            }
            (Kind::Pit, false) => {
                y = original_y;
                if counter > 1 {
                    y -= 4.0 * STEP;
                }
            }
            (Kind::Stump, true) => {
                counter = random.integers(1, 3);
                let size = counter as f64 * STEP;
                obstacle([[x, y], [x + size, y], [x + size, y + size], [x, y + size]]);
            }
            (Kind::Stairs, true) => {
                stair_height = if random.random() > 0.5 { 1 } else { -1 };
                stair_width = random.integers(4, 5);
                stair_steps = random.integers(3, 5);
                original_y = y;
                for s in 0..stair_steps {
                    let left = x + (s * stair_width) as f64 * STEP;
                    let right = x + ((1 + s) * stair_width) as f64 * STEP;
                    let top = y + (s * stair_height) as f64 * STEP;
                    let bottom = y + (-1 + s * stair_height) as f64 * STEP;
                    obstacle([[left, top], [right, top], [right, bottom], [left, bottom]]);
                }
                counter = stair_steps * stair_width;
            }
            (Kind::Stairs, false) => {
                let s = stair_steps * stair_width - counter - stair_height;
                let n = s as f64 / stair_width as f64;
                y = original_y + (n * stair_height as f64) * STEP;
            }
            (Kind::Grass, true) | (Kind::Stump, false) => {}
        }
        is_first = false;
        *height = y;
        counter -= 1;
        if counter == 0 {
            counter = random.integers(GRASS / 2, GRASS);
            is_first = true;
            kind = if kind == Kind::Grass && hardcore {
                [Kind::Stump, Kind::Stairs, Kind::Pit][(random.integers(1, 4) - 1) as usize]
            } else {
                Kind::Grass
            };
        }
    }
    bodies
}

fn create_static(world: &mut World, shape: Shape) {
    world.create_body(BodyDef { is_dynamic: false, position: Vec2::default(), angle: 0.0 });
    world.create_fixture(FixtureDef { friction: FRICTION, ..FixtureDef::new(shape) });
}

/// Draws the clouds of the picture at random; they consume numbers of the random stream, as in Gymnasium.
pub(super) fn clouds(random: &mut NpRandom) -> [Cloud; CLOUDS] {
    std::array::from_fn(|_| {
        let x = random.uniform(0.0, LENGTH as f64) * TERRAIN_STEP;
        let y = 400.0 / SCALE * 3.0 / 4.0;
        std::array::from_fn(|a| {
            // Gymnasium uses 3.14 here.
            #[allow(clippy::approx_constant)]
            let angle = 3.14 * 2.0 * a as f64 / 5.0;
            let mut blur = || random.uniform(0.0, 5.0 * TERRAIN_STEP);
            let x = x + 15.0 * TERRAIN_STEP * angle.sin() + blur();
            [x, y + 5.0 * TERRAIN_STEP * angle.cos() + blur()]
        })
    })
}

pub(super) fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}
