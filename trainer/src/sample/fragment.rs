//! What a sampler hands to a policy: a piece of several trajectories.

use crate::base::batch::{Column, SampleBatch, env_major};
use tch::Tensor;

/// A piece of several trajectories, time-major, before postprocessing. Everything is lent by the sampler, which
/// will write over it: keep copies.
#[derive(Debug)]
pub struct Fragment<'a> {
    /// Steps per copy, T.
    pub steps: usize,
    /// Copies, N.
    pub num_envs: usize,
    /// Observations `[T + 1, N, width]`; row T is what the next fragment starts from.
    pub obs: &'a Tensor,
    /// Actions `[T, N]` or `[T, N, components]`.
    pub actions: &'a Tensor,
    /// Rewards `[T * N]`, time-major, clipped if `clip_rewards` says so.
    pub rewards: &'a [f32],
    /// Whether the task ended with this step, `[T * N]`.
    pub terminated: &'a [bool],
    /// Whether the episode was cut after this step, `[T * N]`; never both.
    pub truncated: &'a [bool],
    /// The policy's own columns `[T, N, width]`.
    pub columns: Vec<(Column, &'a Tensor)>,
    /// Steps (`t * N + copy`) at which an episode ended, either way.
    pub ended: &'a [usize],
    /// The last observation of each of those episodes, `[ended, width]`.
    pub final_obs: &'a Tensor,
}

impl Fragment<'_> {
    /// Observations, actions and the policy's own columns as rows, ordered as [`env_major`].
    pub fn rows(&self) -> SampleBatch {
        let mut batch = SampleBatch::default()
            .with(Column::OBS, env_major(&self.obs.narrow(0, 0, self.steps as i64)))
            .with(Column::ACTIONS, env_major(self.actions));
        for (column, data) in &self.columns {
            batch.set(*column, env_major(data));
        }
        batch
    }
}
