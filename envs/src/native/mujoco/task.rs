//! What tells one environment from another: how it starts, what it shows and what it rewards.

use std::fmt::Debug;

use super::{
    layout::Field,
    settings::{Camera, Common},
    sim::Sim,
};
use crate::NpRandom;

/// One of Gymnasium's classes. The settings implement it.
pub(super) trait Task: Debug + Send + Sync {
    fn common(&self) -> &Common;

    /// The arrays of MuJoCo that it reads besides the state.
    fn fields(&self) -> &'static [Field] {
        &[]
    }

    /// The bodies whose positions it reads ([`Sim::body`]).
    fn bodies(&self) -> Vec<String> {
        vec![]
    }

    /// Of positions and of velocities that a model must have at least, for models of the user's own.
    fn least_joints(&self) -> usize;

    /// Whether the model has what the settings name.
    ///
    /// # Errors
    /// The setting, its value and the rule.
    fn check(&self, sim: &Sim<'_>) -> Result<(), String> {
        let _ = sim;
        Ok(())
    }

    fn camera(&self) -> Camera;

    /// Draws the first state of an episode: `qpos` and `qvel` are the model's own before.
    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom);

    /// Appends the observation.
    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>);

    /// The place whose velocity counts.
    fn position(&self, sim: &Sim<'_>) -> [f64; 2] {
        [sim.qpos[0], sim.qpos.get(1).copied().unwrap_or(0.0)]
    }

    /// The reward and whether the episode terminated; `velocity` is that of [`position`](Self::position). Writes the
    /// numbers of `info` in the order of their [`keys`](Self::info_keys).
    fn reward(&self, sim: &Sim<'_>, velocity: [f64; 2], action: &[f32], info: &mut [f64]) -> (f64, bool);

    fn info_keys(&self) -> &'static [&'static str];

    /// As [`reward`](Self::reward) writes them, after a reset; `info` is NaN before.
    fn reset_info(&self, sim: &Sim<'_>, info: &mut [f64]) {
        let _ = (sim, info);
    }
}

/// Adds `rng.uniform(-scale, scale)` to each.
pub(super) fn add_uniform(values: &mut [f64], scale: f64, random: &mut NpRandom) {
    values.iter_mut().for_each(|value| *value += random.uniform(-scale, scale));
}

/// Adds `scale * rng.standard_normal()` to each.
pub(super) fn add_normal(values: &mut [f64], scale: f64, random: &mut NpRandom) {
    values.iter_mut().for_each(|value| *value += scale * random.normal());
}
