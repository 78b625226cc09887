//! What a sampler hands to a policy: a piece of several trajectories.

mod parts;
mod sequences;

pub use parts::{FragmentMasks, FragmentMemory, Values};

use crate::base::{Result, array};
use crate::experience::batch::{SampleBatch, env_major};
use crate::experience::columns::Column;
use crate::experience::gae;
use bytemuck::Pod;
use ndarray::ArrayViewD;
use tch::{Tensor, kind};

/// A time-major piece of several trajectories before postprocessing. The sampler will write over it: keep copies.
#[derive(Debug)]
pub struct Fragment<'a> {
    /// Steps per copy, T.
    pub steps: usize,
    /// Copies, N; where there are several agents, copies times the agents of this policy.
    pub num_envs: usize,
    /// Steps that each of them took, at most T: agents wait for each other and end early. `None`: all took T. Nothing
    /// else of a copy counts, but for the observation that its last step led to.
    pub lengths: Option<&'a [usize]>,
    /// Observations `[T + 1, N, ...]`, of the space's shape and scalars; row T is where the next fragment starts.
    pub obs: &'a Tensor,
    /// Actions `[T, N]` or `[T, N, components]`.
    pub actions: &'a Tensor,
    /// Rewards `[T * N]`, time-major, clipped if `clip_rewards` says so.
    pub rewards: &'a [f32],
    /// Whether the task ended with this step, `[T * N]`.
    pub terminated: &'a [bool],
    /// Whether the episode was cut after this step, `[T * N]`. Where `terminated` is set besides, nothing follows.
    pub truncated: &'a [bool],
    /// The policy's own columns `[T, N, width]`.
    pub columns: Vec<(Column, &'a Tensor)>,
    /// Steps (`t * N + copy`) at which an episode ended, either way.
    pub ended: &'a [usize],
    /// The last observation of each of those episodes, `[ended, ...]`.
    pub final_obs: &'a Tensor,
    /// Which actions were legal; only where `mask_actions` asks for it.
    pub masks: Option<FragmentMasks<'a>>,
    /// The discount, `gamma` of the run.
    pub gamma: f64,
    /// What the policy remembered; only where it does.
    pub memory: Option<FragmentMemory<'a>>,
}

impl Fragment<'_> {
    /// The observations where they stand, `[T + 1, N, ...]`, in the shape and the scalars of the space.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::Error::State) if they are scalars of another type.
    pub fn observations<T: Pod + kind::Element>(&self) -> Result<ArrayViewD<'_, T>> {
        array::view(self.obs, "the observations of a fragment")
    }

    /// Steps that one copy took.
    pub fn length(&self, copy: usize) -> usize {
        self.lengths.map_or(self.steps, |lengths| lengths[copy])
    }

    /// Turns time-major rows `[T, N, ...]` (or one more) into batch rows, one copy after the other; see [`env_major`].
    pub fn env_major(&self, t: &Tensor) -> Tensor {
        self.copies_of(t, self.steps, |length| length)
    }

    /// The first `rows(length)` rows of every copy of `t`, which has at least `most`.
    fn copies_of(&self, t: &Tensor, most: usize, rows: impl Fn(usize) -> usize) -> Tensor {
        let Some(lengths) = self.lengths else { return env_major(&t.narrow(0, 0, most as i64)) };
        let of_copy = |(copy, &length)| (0..rows(length)).map(move |t| (t * lengths.len() + copy) as i64);
        let index: Vec<i64> = lengths.iter().enumerate().flat_map(of_copy).collect();
        t.flatten(0, 1).index_select(0, &Tensor::from_slice(&index))
    }

    /// Observations, masks, actions and the policy's own columns as rows, ordered as [`env_major`](Self::env_major).
    pub fn rows(&self) -> SampleBatch {
        let mut batch = SampleBatch::default()
            .with(Column::OBS, self.env_major(self.obs))
            .with(Column::ACTIONS, self.env_major(self.actions));
        if let Some(masks) = self.masks {
            batch.set(Column::ACTION_MASK, self.env_major(masks.rows));
        }
        for (column, data) in &self.columns {
            batch.set(*column, self.env_major(data));
        }
        self.with_sequences(batch)
    }

    /// Where the rows stand in what is time-major, one copy after the other.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let of_copy = move |copy| (0..self.length(copy)).map(move |t| t * self.num_envs + copy);
        (0..self.num_envs).flat_map(of_copy)
    }

    /// What stands behind the last row of every copy.
    pub(crate) fn behind(&self, all: &Tensor) -> Tensor {
        let Some(lengths) = self.lengths else { return all.get(self.steps as i64) };
        let index = lengths.iter().enumerate().map(|(copy, &length)| (length * self.num_envs + copy) as i64);
        all.flatten(0, 1).index_select(0, &Tensor::from_slice(&index.collect::<Vec<_>>()))
    }

    /// Advantages by GAE, ordered as [`rows`](Self::rows).
    pub fn advantages(&self, values: &Values, gamma: f64, lambda: f64) -> Vec<f32> {
        let trajectories = gae::Trajectories {
            num_envs: self.num_envs,
            lengths: self.lengths,
            rewards: self.rewards,
            values: &values.at_rows,
            terminated: self.terminated,
            truncated: self.truncated,
            ended: self.ended,
            final_values: &values.at_ends,
        };
        gae::advantages(trajectories, gamma as f32, lambda as f32)
    }
}
