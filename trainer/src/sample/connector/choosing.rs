//! Choosing actions: by the policy, or at random.

use crate::base::{Result, Stream};
use crate::learn::loss::Seen;
use crate::policy::{Act, Policy, StepColumns};
use crate::sample::transforms::PolicyToEnv;
use tch::Tensor;

/// Inputs of the acting copies, and the buffers for their actions.
pub(crate) struct Choices<'a> {
    pub(super) mask: Option<&'a [bool]>,
    pub(super) memory: &'a mut [f32],
    pub(super) resets: &'a [bool],
    pub(super) rngs: &'a mut [Stream],
    pub(super) noise: &'a mut [f32],
    pub(super) actions: &'a mut [u8],
    pub(super) columns: StepColumns<'a>,
}

/// Settings for choosing actions.
pub(crate) struct Choosing<'a> {
    pub(super) to_env: &'a PolicyToEnv,
    pub(super) worker: (usize, usize),
    pub(super) explore: bool,
    pub(super) timestep: u64,
    /// Whether random actions replace the policy's; its memory and columns are still updated.
    pub(super) at_random: bool,
}

impl Choosing<'_> {
    pub(super) fn act(self, policy: &mut dyn Policy, obs: &Tensor, choices: Choices<'_>) -> Result<()> {
        let Self { to_env, worker, explore, timestep, at_random } = self;
        let Choices { mask, memory, resets, rngs, noise, actions, columns } = choices;
        let to = to_env.rows(&mut *actions);
        let seen = Seen { obs, mask, memory, resets, explore, timestep };
        let act = Act { rngs: &mut *rngs, actions: to, mask, explore, timestep, worker, noise, columns };
        policy.compute_actions(seen, act)?;
        if at_random {
            to_env.draw(actions, mask, rngs);
        }
        Ok(())
    }
}
