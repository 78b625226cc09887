//! Choosing actions: by the policy, or at random.

use crate::base::{Result, Stream};
use crate::learn::loss::Seen;
use crate::policy::{Act, Policy, StepColumns};
use crate::sample::transforms::PolicyToEnv;
use tch::Tensor;

/// Inputs of the acting copies, the buffers for their actions, and how they act.
pub(crate) struct Choices<'a> {
    pub(super) mask: Option<&'a [bool]>,
    pub(super) memory: &'a mut [f32],
    pub(super) resets: &'a [bool],
    pub(super) rngs: &'a mut [Stream],
    pub(super) noise: &'a mut [f32],
    pub(super) actions: &'a mut [u8],
    pub(super) columns: StepColumns<'a>,
    pub(super) to_env: &'a PolicyToEnv,
    pub(super) worker: (usize, usize),
    pub(super) explore: bool,
    pub(super) timestep: u64,
    /// Number of the run's first steps in which random actions replace the policy's; its memory and columns are still
    /// updated.
    pub(super) random_timesteps: u64,
}

impl Choices<'_> {
    pub(super) fn act(self, policy: &mut dyn Policy, obs: &Tensor) -> Result<()> {
        let Self { mask, memory, resets, rngs, noise, actions, columns, .. } = self;
        let Self { to_env, worker, explore, timestep, random_timesteps, .. } = self;
        let to = to_env.rows(&mut *actions);
        let seen = Seen { obs, mask, memory, resets, explore, timestep };
        let act = Act { rngs: &mut *rngs, actions: to, mask, explore, timestep, worker, noise, columns };
        policy.compute_actions(seen, act)?;
        if explore && timestep < random_timesteps {
            to_env.draw(actions, mask, rngs);
        }
        Ok(())
    }
}
