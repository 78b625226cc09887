//! What a sampler hands to a policy: a piece of several trajectories.

use crate::{
    base::{
        array,
        batch::{Column, SampleBatch, env_major},
        error::Result,
        host,
        trajectories::Trajectory,
    },
    learn::{
        engines::backend::{Observed, Remembered},
        learner::Learner,
        nets::{Input, Net},
        returns::gae,
        value::Value,
    },
};
use bytemuck::Pod;
use ndarray::ArrayViewD;
use tch::{Tensor, kind};

/// A piece of several trajectories, time-major, before postprocessing. Everything is lent by the sampler, which
/// will write over it: keep copies.
#[derive(Debug)]
pub struct Fragment<'a> {
    /// Steps per copy, T.
    pub steps: usize,
    /// Copies, N.
    pub num_envs: usize,
    /// Observations `[T + 1, N, ...]` in the shape and the scalars of the space; row T is what the next fragment starts
    /// from.
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
    /// The last observation of each of those episodes, `[ended, ...]`.
    pub final_obs: &'a Tensor,
    /// Which actions were legal; only where `mask_actions` asks for it.
    pub masks: Option<FragmentMasks<'a>>,
    /// What the policy remembered; only where it does.
    pub memory: Option<FragmentMemory<'a>>,
}

/// What a policy remembered in a [`Fragment`].
#[derive(Clone, Copy, Debug)]
pub struct FragmentMemory<'a> {
    /// Rows of a sequence. The last one of a copy is shorter where T is no multiple of it.
    pub max_seq_len: usize,
    /// At the first row of every sequence, `[ceil(T / max_seq_len), N, width]`.
    pub rows: &'a Tensor,
    /// Whether an episode begins with the row, `[T * N]`.
    pub resets: &'a [bool],
    /// Behind the last step of every episode that ended, `[ended, width]`.
    pub behind: &'a [f32],
    /// Behind the last step of the fragment, `[N, width]`.
    pub next: &'a [f32],
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
    /// The observations where they stand, `[T + 1, N, ...]`, in the shape and the scalars of the space.
    pub fn observations<T: Pod + kind::Element>(&self) -> Result<ArrayViewD<'_, T>> {
        array::view(self.obs, "the observations of a fragment")
    }

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
        let Some(memory) = self.memory else { return batch };
        let resets: Vec<f32> = self.env_major_resets(memory).map(f32::from).collect();
        let lengths = self.sequence_lengths(memory.max_seq_len);
        batch.with_f32s(Column::RESETS, &resets).with_sequences(
            lengths,
            Column::STATE_IN,
            env_major(memory.rows),
        )
    }

    /// Rows of each sequence, one copy after the other.
    fn sequence_lengths(&self, max_seq_len: usize) -> Vec<usize> {
        let of_copy = || (0..self.steps).step_by(max_seq_len).map(|t| (self.steps - t).min(max_seq_len));
        (0..self.num_envs).flat_map(|_| of_copy()).collect()
    }

    fn env_major_resets(&self, memory: FragmentMemory<'_>) -> impl Iterator<Item = bool> {
        let (steps, copies) = (self.steps, self.num_envs);
        (0..steps * copies).map(move |row| memory.resets[row % steps * copies + row / steps])
    }

    /// The rows and their rewards, with what learning from whole trajectories needs: which rows follow each other, and
    /// observation, mask and memory behind every piece of an episode that was cut, by time or by the fragment's end.
    pub fn rows_with_trajectories(&self) -> SampleBatch {
        let n = self.num_envs;
        let mut rewards = Vec::with_capacity(self.rewards.len());
        let (mut pieces, mut behind) = (Vec::new(), Vec::new());
        for copy in 0..n {
            let mut start = rewards.len();
            for t in 0..self.steps {
                let row = t * n + copy;
                rewards.push(self.rewards[row]);
                let (terminated, truncated) = (self.terminated[row], self.truncated[row]);
                if !(terminated || truncated || t + 1 == self.steps) {
                    continue;
                }
                // Of what follows the last step of every copy, then of what episodes ended at.
                if truncated {
                    let end =
                        self.ended.binary_search(&row).expect("an episode that ended has a last observation");
                    behind.push((n + end) as i64);
                } else if !terminated {
                    behind.push(copy as i64);
                }
                pieces.push(Trajectory { start, len: rewards.len() - start, terminated });
                start = rewards.len();
            }
        }
        let mut at_cuts = SampleBatch::default();
        if !behind.is_empty() {
            let index = Tensor::from_slice(&behind);
            let of = |all: &Tensor, at_ends: &Tensor| {
                Tensor::cat(&[&all.get(self.steps as i64), at_ends], 0).index_select(0, &index)
            };
            at_cuts.set(Column::OBS, of(self.obs, self.final_obs));
            if let Some(masks) = self.masks {
                at_cuts.set(Column::ACTION_MASK, of(masks.rows, masks.behind));
            }
            if let Some(memory) = self.memory {
                // Sequences of a single row.
                let all = Tensor::from_slice(&[memory.next, memory.behind].concat());
                let all = all.view([(n + self.ended.len()) as i64, -1]);
                at_cuts = at_cuts.with_f32s(Column::RESETS, &vec![0.0; behind.len()]).with_sequences(
                    vec![1; behind.len()],
                    Column::STATE_IN,
                    all.index_select(0, &index),
                );
            }
        }
        self.rows().with_f32s(Column::REWARDS, &rewards).with_trajectories(pieces, at_cuts)
    }

    /// A head of one number at every observation, those at which episodes ended included.
    pub fn values<H>(&self, learner: &mut Learner, head: H) -> Result<Values>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        if let Some(memory) = self.memory {
            return self.values_of_sequences(memory, learner, &head);
        }
        let _guard = tch::no_grad_guard();
        let at_rows = learner.evaluate(&self.obs.flatten(0, 1), 1, &head)?.to_vec();
        let at_ends = learner.evaluate(self.final_obs, 1, &head)?.to_vec();
        Ok(Values { copies: self.num_envs, at_rows, at_ends })
    }

    fn values_of_sequences<H>(
        &self,
        memory: FragmentMemory<'_>,
        learner: &mut Learner,
        head: &H,
    ) -> Result<Values>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        let _guard = tch::no_grad_guard();
        let (steps, copies) = (self.steps, self.num_envs);
        let resets: Vec<bool> = self.env_major_resets(memory).collect();
        let lengths = self.sequence_lengths(memory.max_seq_len);
        let mut at = |obs: &Tensor, memory: &mut [f32], resets: &[bool], lengths| {
            let remembered = Some(Remembered { memory, resets, lengths });
            let seen = Observed { obs, mask: None, remembered };
            learner.look(seen, None, 1, |net, x| head(net, x)).map(<[f32]>::to_vec)
        };
        let obs = env_major(&self.obs.narrow(0, 0, steps as i64));
        let mut first = host::read::<f32>(&env_major(memory.rows)).to_vec();
        let acted_on = at(&obs, &mut first, &resets, Some(&lengths))?;
        // The observations behind the fragment and behind endings are one step further.
        let none = vec![false; copies.max(self.ended.len())];
        let next = at(&self.obs.get(steps as i64), &mut memory.next.to_vec(), &none[..copies], None)?;
        let at_ends = at(self.final_obs, &mut memory.behind.to_vec(), &none[..self.ended.len()], None)?;
        let time_major = (0..steps * copies).map(|row| acted_on[row % copies * steps + row / copies]);
        Ok(Values { copies, at_rows: time_major.chain(next).collect(), at_ends })
    }

    /// Advantages by GAE, ordered as [`rows`](Self::rows).
    pub fn advantages(&self, values: &Values, gamma: f64, lambda: f64) -> Vec<f32> {
        let trajectories = gae::Trajectories {
            num_envs: self.num_envs,
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

/// One number for every observation of a fragment.
#[derive(Clone, Debug)]
pub struct Values {
    copies: usize,
    /// Time-major `[(T + 1) * N]`.
    at_rows: Vec<f32>,
    /// At the observations at which episodes ended.
    at_ends: Vec<f32>,
}

impl Values {
    /// Those of the observations that were acted on, ordered as [`Fragment::rows`].
    pub fn rows(&self) -> Vec<f32> {
        let steps = self.at_rows.len() / self.copies - 1;
        let of_copy = |copy| (0..steps).map(move |t| self.at_rows[t * self.copies + copy]);
        (0..self.copies).flat_map(of_copy).collect()
    }
}
