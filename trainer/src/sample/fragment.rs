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
    /// Which actions were legal; only where `mask_actions` asks for it.
    pub masks: Option<FragmentMasks<'a>>,
}

/// Which actions were legal at every observation of a [`Fragment`], bool.
#[derive(Clone, Copy, Debug)]
pub struct FragmentMasks<'a> {
    /// `[T + 1, N, options]`.
    pub rows: &'a Tensor,
    /// At the last observation of every episode that ended, `[ended, options]`.
    pub behind: &'a Tensor,
}

impl Fragment<'_> {
    /// Observations, masks, actions and the policy's own columns as rows, ordered as [`env_major`].
    pub fn rows(&self) -> SampleBatch {
        let mut batch = SampleBatch::default()
            .with(Column::OBS, env_major(&self.obs.narrow(0, 0, self.steps as i64)))
            .with(Column::ACTIONS, env_major(self.actions));
        if let Some(masks) = self.masks {
            batch.set(Column::ACTION_MASK, env_major(&masks.rows.narrow(0, 0, self.steps as i64)));
        }
        for (column, data) in &self.columns {
            batch.set(*column, env_major(data));
        }
        batch
    }
}
