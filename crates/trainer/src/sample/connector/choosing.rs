//! Choosing the actions of one step: by the policy, or at random in the first steps of a run.

use crate::policy::{Act, Matrices, Policy, StepColumns};
use crate::sample::transforms::PolicyToEnv;
use pavlov_learn::base::{ArrayRef, Result, Stream};
use pavlov_learn::loss::Seen;

/// Inputs of the copies that act in one step, the buffers for their actions, and whether they explore.
pub(crate) struct Choices<'a> {
    /// Legal actions, `[acting, options]`; `None` without action masks.
    pub(super) mask: Option<&'a [bool]>,
    /// Recurrent state, `[acting, width]`.
    pub(super) memory: &'a mut [f32],
    /// For each acting copy, whether the step is the first of an episode.
    pub(super) resets: &'a [bool],
    pub(super) rngs: &'a mut [Stream],
    /// Correlated exploration noise, `[acting, components]`.
    pub(super) noise: &'a mut [f32],
    /// Matrices of state-dependent noise; `None` if the policy has no such noise.
    pub(super) matrices: Option<Matrices<'a>>,
    /// Buffer for the actions in the policy's form.
    pub(super) actions: &'a mut [u8],
    /// Buffers for the columns that the policy adds.
    pub(super) columns: StepColumns<'a>,
    pub(super) to_env: &'a PolicyToEnv,
    /// Index of the worker, and the number of workers.
    pub(super) worker: (usize, usize),
    pub(super) explore: bool,
    pub(super) timestep: u64,
    /// Number of environment steps at the start of a run in which random actions replace the policy's; the policy still
    /// updates its recurrent state and its columns.
    pub(super) random_timesteps: u64,
}

impl Choices<'_> {
    /// Lets the policy choose the actions, and replaces them by random ones in the run's first steps.
    pub(super) fn act(self, policy: &mut dyn Policy, obs: ArrayRef<'_>) -> Result<()> {
        let Self { mask, memory, resets, rngs, noise, matrices, actions, columns, .. } = self;
        let Self { to_env, worker, explore, timestep, random_timesteps, .. } = self;
        let to = to_env.rows(&mut *actions);
        let seen = Seen { obs, mask, memory, resets, explore, timestep };
        let rows = &mut *rngs;
        let act = Act { rngs: rows, actions: to, mask, explore, timestep, worker, noise, matrices, columns };
        policy.compute_actions(seen, act)?;
        if explore && timestep < random_timesteps {
            to_env.draw(actions, mask, rngs);
        }
        Ok(())
    }
}
