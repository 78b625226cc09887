//! The valley that MountainCar and MountainCarContinuous share: its bounds, observation space and picture.

use crate::render::draw;
use crate::{DType, Frame, Space};

pub(super) const LEFT: f64 = -1.2;
pub(super) const RIGHT: f64 = 0.6;
pub(super) const MAX_SPEED: f64 = 0.07;
pub(super) const GRAVITY: f64 = 0.0025;

pub(super) fn observation_space() -> Space {
    let single = |values: [f64; 2]| values.map(|value| f64::from(value as f32)).to_vec();
    Space::Box {
        low: single([LEFT, -MAX_SPEED]),
        high: single([RIGHT, MAX_SPEED]),
        shape: vec![2],
        dtype: DType::F32,
    }
}

/// Draws Gymnasium's picture: 600 x 400 pixels, a car of 40 x 20 on the slope, a flag at the goal.
pub(super) fn draw(position: f32, goal: f32) -> Option<Frame> {
    const GRAY: [u8; 3] = [128, 128, 128];
    const YELLOW: [u8; 3] = [204, 204, 0];
    let scale = 600.0 / (RIGHT - LEFT) as f32;
    let place = |x: f32| ((x - LEFT as f32) * scale, ((3.0 * x).sin() * 0.45 + 0.55) * scale);
    let mut canvas = draw::Canvas::new(600, 400)?;
    let slope: Vec<_> =
        (0..100).map(|i| place(LEFT as f32 + (RIGHT - LEFT) as f32 * i as f32 / 99.0)).collect();
    canvas.line(&slope, 1.0, draw::BLACK);

    let (x, y) = place(position);
    let on_car = |point| draw::turn(point, (3.0 * position).cos(), (x, y + 10.0));
    canvas.polygon(&[(-20.0, 0.0), (-20.0, 20.0), (20.0, 20.0), (20.0, 0.0)].map(on_car), draw::BLACK);
    for wheel in [(10.0, 0.0), (-10.0, 0.0)].map(on_car) {
        canvas.circle((wheel.0.trunc(), wheel.1.trunc()), 8.0, GRAY);
    }

    let (x, y) = place(goal);
    let x = x.trunc();
    let y = y.trunc();
    canvas.line(&[(x, y), (x, y + 50.0)], 1.0, draw::BLACK);
    canvas.polygon(&[(x, y + 50.0), (x, y + 40.0), (x + 25.0, y + 45.0)], YELLOW);
    Some(canvas.into_frame())
}
