//! What solvers are told of a step, and what they change (`b2TimeStep.h`).

use super::math::Vec2;

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeStep {
    pub(super) dt: f32,
    /// This step's length over the last one's.
    pub(super) dt_ratio: f32,
    pub(super) velocity_iterations: usize,
    pub(super) position_iterations: usize,
}

/// Of a centre of mass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    pub(super) c: Vec2,
    pub(super) a: f32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Velocity {
    pub(super) v: Vec2,
    pub(super) w: f32,
}
