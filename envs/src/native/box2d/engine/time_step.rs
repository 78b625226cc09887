//! Inputs of the solvers for one step, and the positions and velocities that they change (`b2TimeStep.h`).

use super::math::Vec2;

/// Length and iteration counts of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeStep {
    pub(super) dt: f32,
    /// Ratio of this step's length to the last one's.
    pub(super) dt_ratio: f32,
    pub(super) velocity_iterations: usize,
    pub(super) position_iterations: usize,
}

/// Position of a centre of mass and angle of its body.
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
