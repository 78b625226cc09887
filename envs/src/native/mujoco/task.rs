//! The trait of MuJoCo environments: how one starts, what it observes and what it rewards.

use std::fmt::Debug;

use super::{
    layout::Field,
    settings::{Camera, Common},
    sim::Sim,
};
use crate::NpRandom;

/// One of Gymnasium's MuJoCo environments, implemented by its settings.
pub(super) trait Task: Debug + Send + Sync {
    fn common(&self) -> &Common;

    /// Arrays of MuJoCo that the task reads in addition to the state.
    fn fields(&self) -> &'static [Field] {
        &[]
    }

    /// Names of the bodies whose positions the task reads with [`Sim::body`].
    fn bodies(&self) -> Vec<String> {
        vec![]
    }

    /// Minimum number of joint positions and of velocities that a custom model must have.
    fn least_joints(&self) -> usize;

    /// Checks that the model has what the settings name.
    ///
    /// # Errors
    /// Returns a message with the setting, its value and the rule.
    fn check(&self, sim: &Sim<'_>) -> Result<(), String> {
        let _ = sim;
        Ok(())
    }

    fn camera(&self) -> Camera;

    /// Draws the first state of an episode; `qpos` and `qvel` hold the model's initial state before the call.
    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom);

    /// Appends the observation to `obs`.
    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>);

    /// The point whose velocity is given to [`reward`](Self::reward); by default the first two joint positions.
    fn position(&self, sim: &Sim<'_>) -> [f64; 2] {
        [sim.qpos[0], sim.qpos.get(1).copied().unwrap_or(0.0)]
    }

    /// Returns the reward and whether the episode terminated; `velocity` is that of [`position`](Self::position). Writes the
    /// values of `info` in the order of [`info_keys`](Self::info_keys).
    fn reward(&self, sim: &Sim<'_>, velocity: [f64; 2], action: &[f32], info: &mut [f64]) -> (f64, bool);

    fn info_keys(&self) -> &'static [&'static str];

    /// Writes the values of `info` after a reset, in the order of [`info_keys`](Self::info_keys); they are NaN before the
    /// call.
    fn reset_info(&self, sim: &Sim<'_>, info: &mut [f64]) {
        let _ = (sim, info);
    }
}

/// Adds numpy's `rng.uniform(-scale, scale)` to each value.
pub(super) fn add_uniform(values: &mut [f64], scale: f64, random: &mut NpRandom) {
    values.iter_mut().for_each(|value| *value += random.uniform(-scale, scale));
}

/// Adds numpy's `scale * rng.standard_normal()` to each value.
pub(super) fn add_normal(values: &mut [f64], scale: f64, random: &mut NpRandom) {
    values.iter_mut().for_each(|value| *value += scale * random.normal());
}
