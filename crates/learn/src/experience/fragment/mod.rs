//! The fragment that a sampler hands to a policy: T steps of N environment copies.

mod parts;
mod sequences;

pub use parts::{EpisodeStart, FragmentMasks, FragmentMemory, Values};

use crate::base::{Array, ArrayRef, Result, Scalar};
use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;
use crate::experience::gae;
use crate::experience::waiting::WaitingRows;
use bytemuck::Pod;
use ndarray::ArrayViewD;
use std::cell::RefCell;

/// Experience of T steps of N environment copies, time-major, before postprocessing. Its arrays lend the
/// sampler's buffers, which the next fragment overwrites.
#[derive(Debug)]
pub struct Fragment<'a> {
    /// Number of steps per copy, T.
    pub steps: usize,
    /// Number of copies, N; with several agents, copies times the agents of this policy.
    pub num_envs: usize,
    /// Number of steps that each copy took; `None` if every copy took T. With several agents some take fewer, as they
    /// wait for others or end early. The rows after a copy's last step are unused, except for the observation after it.
    pub lengths: Option<&'a [usize]>,
    /// Observations `[T + 1, N, ...]`, of the space's shape and scalars; the next fragment starts with those of row T.
    pub obs: ArrayRef<'a>,
    /// Actions `[T, N]` or `[T, N, components]`.
    pub actions: ArrayRef<'a>,
    /// Rewards `[T * N]`, time-major, clipped by the setting `clip_rewards`.
    pub rewards: &'a [f32],
    /// Whether the episode terminated with this step, `[T * N]`.
    pub terminated: &'a [bool],
    /// Whether the episode was truncated after this step, `[T * N]`. If `terminated` is set too, the episode counts as
    /// terminated.
    pub truncated: &'a [bool],
    /// Columns that the policy computed while acting, `[T, N, width]`.
    pub columns: Vec<(Column, ArrayRef<'a>)>,
    /// Indices `t * N + copy` of the steps at which an episode terminated or was truncated.
    pub ended: &'a [usize],
    /// The last observation of each episode in `ended`, `[ended, ...]`.
    pub final_obs: ArrayRef<'a>,
    /// Flags of the discrete actions that were legal; present only with `mask_actions`.
    pub masks: Option<FragmentMasks<'a>>,
    /// Discount factor of the run, the setting `gamma`.
    pub gamma: f64,
    /// Recurrent states; present only with a recurrent policy.
    pub memory: Option<FragmentMemory<'a>>,
    /// Copies whose running episode was given up before the first row of this fragment: what waits of it is dropped.
    pub abandoned: &'a [usize],
    /// Where each copy's episode stood before the first row; `None` if agents take turns or other programs play.
    pub episodes: Option<&'a [EpisodeStart]>,
    /// Steps of earlier fragments whose n-step rows are not complete; `None` if nothing is kept from one fragment to the
    /// next.
    pub waiting: Option<&'a RefCell<WaitingRows>>,
}

impl Fragment<'_> {
    /// Observations `[T + 1, N, ...]` in the shape and type of the space, without a copy.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::base::Error::State) if observations are scalars of another type.
    pub fn observations<T: Pod + Scalar>(&self) -> Result<ArrayViewD<'_, T>> {
        self.obs.view("the observations of a fragment")
    }

    /// Number of steps that one copy took.
    #[inline]
    pub fn length(&self, copy: usize) -> usize {
        self.lengths.map_or(self.steps, |lengths| lengths[copy])
    }

    /// Reorders time-major rows `[T, N, ...]` or `[T + 1, N, ...]` to batch rows, copy by copy; see
    /// [`env_major`](crate::experience::env_major).
    pub fn env_major<'r>(&self, t: impl Into<ArrayRef<'r>>) -> Array {
        self.copies_of(t.into(), self.steps, |length| length)
    }

    /// The first `rows(length)` rows of every copy in the time-major `t`, copy by copy; `length` is the number of steps
    /// that the copy took. `most` must be `rows(T)`; it is used, and `rows` is not, if every copy took all `T` steps.
    fn copies_of(&self, t: ArrayRef<'_>, most: usize, rows: impl Fn(usize) -> usize) -> Array {
        let Some(lengths) = self.lengths else { return t.rows(0..most).env_major() };
        let of_copy = |(copy, &length)| (0..rows(length)).map(move |t| (t * lengths.len() + copy) as i64);
        let index: Vec<i64> = lengths.iter().enumerate().flat_map(of_copy).collect();
        t.merged().gather(&index)
    }

    /// The fragment's observations, masks, actions and own columns of the policy as the rows of a batch, in the order of
    /// [`env_major`](Self::env_major).
    pub fn rows(&self) -> SampleBatch {
        let mut batch = SampleBatch::default()
            .with(Column::OBS, self.env_major(self.obs))
            .with(Column::ACTIONS, self.env_major(self.actions));
        if let Some(masks) = &self.masks {
            batch.set(Column::ACTION_MASK, self.env_major(masks.rows));
        }
        for (column, data) in &self.columns {
            batch.set(*column, self.env_major(*data));
        }
        self.with_sequences(batch)
    }

    /// Indices `t * N + copy` of all steps that were taken, one copy after the other.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let of_copy = move |copy| (0..self.length(copy)).map(move |t| t * self.num_envs + copy);
        (0..self.num_envs).flat_map(of_copy)
    }

    /// The rows of `all`, `[T + 1, N, ...]`, that follow the last step of each copy: `[N, ...]`.
    pub(crate) fn behind(&self, all: ArrayRef<'_>) -> Array {
        let Some(lengths) = self.lengths else { return all.row(self.steps).copied() };
        let index = lengths.iter().enumerate().map(|(copy, &length)| (length * self.num_envs + copy) as i64);
        all.merged().gather(&index.collect::<Vec<_>>())
    }

    /// Advantages by GAE, one per row, in the order of [`rows`](Self::rows). `values` are those of the critic.
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
