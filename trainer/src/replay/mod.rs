//! Experience replay: a ring of rows, drawn uniformly or by priority.

mod buffer;
mod fragments;
mod frames;
mod minibatch_buffer;
mod off_policy;
mod sum_tree;

pub use buffer::ReplayBuffer;
pub(crate) use fragments::Fragments;
pub(crate) use minibatch_buffer::MinibatchBuffer;
pub use off_policy::OffPolicy;
pub use sum_tree::SumTree;

use crate::base::{Error, PolicyId, Result, SampleBatch, TrainBatch, lock, rules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A buffer of rows for each of some policies, shared by the steps of a plan.
#[derive(Clone, Debug, Default)]
pub struct SharedReplay {
    buffers: BTreeMap<PolicyId, Arc<Mutex<ReplayBuffer>>>,
    lockstep: bool,
}

impl SharedReplay {
    /// Shares a buffer of that policy's rows, too.
    #[must_use]
    pub fn with(mut self, policy: impl Into<PolicyId>, buffer: Arc<Mutex<ReplayBuffer>>) -> Self {
        self.buffers.insert(policy.into(), buffer);
        self
    }

    /// The buffers get equally many rows at a time. Those of one stream then draw rows that were added together.
    #[must_use]
    pub fn in_lockstep(self, lockstep: bool) -> Self {
        Self { lockstep, ..self }
    }

    /// Refuses rows that the buffers cannot keep in lockstep, if they are to.
    pub(crate) fn check(&self, batch: &TrainBatch) -> Result<()> {
        if !self.lockstep {
            return Ok(());
        }
        let mut all = self.buffers.keys().map(|id| (id, batch.policies.get(id).map_or(0, SampleBatch::rows)));
        let Some((one, few)) = all.next() else { return Ok(()) };
        match all.find(|(_, rows)| *rows != few) {
            None => Ok(()),
            Some((other, many)) => {
                let reason = format!(
                    "`{one}` got {few} rows of a fragment, and `{other}` {many}, but rows of the same steps are to be drawn together; \
                     give policies equally many agents that act in the same steps, or leave out `replay_mode`"
                );
                Err(Error::state("`multiagent.replay_mode` = \"lockstep\"", reason))
            }
        }
    }

    /// The policies whose rows these are, in the order of the ids.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.buffers.keys().map(String::as_str)
    }

    /// The buffer of one policy, for this caller alone until the guard is dropped.
    pub fn lock(&self, policy: &str) -> Option<MutexGuard<'_, ReplayBuffer>> {
        self.buffers.get(policy).map(|buffer| lock(buffer))
    }
}

/// The ways of drawing rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayKind {
    /// Every row is drawn equally often.
    #[serde(alias = "MultiAgentReplayBuffer", alias = "LocalReplayBuffer")]
    ReplayBuffer,
    /// Rows are drawn in proportion to the error at the last visit (Schaul et al. 2016).
    #[default]
    #[serde(alias = "MultiAgentPrioritizedReplayBuffer")]
    PrioritizedReplayBuffer,
}

/// The `replay_buffer_config` setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayBufferConfig {
    /// How rows are drawn.
    #[serde(rename = "type")]
    pub kind: ReplayKind,
    /// Rows that are kept; the oldest make room.
    pub capacity: usize,
    /// Rows that must be there before any is drawn.
    pub learning_starts: usize,
    /// Exponent of the priorities: 0 is uniform, 1 fully proportional.
    pub prioritized_replay_alpha: f64,
    /// Exponent of the importance weights: 1 corrects the whole bias.
    pub prioritized_replay_beta: f64,
    /// Added to every error, so that no row is never drawn.
    pub prioritized_replay_eps: f64,
}

impl Default for ReplayBufferConfig {
    fn default() -> Self {
        Self {
            kind: ReplayKind::PrioritizedReplayBuffer,
            capacity: 50_000,
            learning_starts: 1000,
            prioritized_replay_alpha: 0.6,
            prioritized_replay_beta: 0.4,
            prioritized_replay_eps: 1e-6,
        }
    }
}

impl ReplayBufferConfig {
    /// Checks rules between the settings and with the rows drawn at a time.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for the setting that breaks a rule; fails as [`rules::all`] does
    /// where several do.
    pub fn validate(&self, train_batch_size: usize) -> Result<()> {
        let Self { capacity, learning_starts, .. } = *self;
        let late = format!(
            "it must be at most {capacity} (`replay_buffer_config.capacity`), or learning never starts"
        );
        let small = format!("it must be at least {train_batch_size} (`train_batch_size`)");
        let capacity_rule = match capacity {
            0 => rules::at_least_one([("replay_buffer_config.capacity", 0)]),
            _ => rules::all([
                rules::refuse_if(
                    learning_starts > capacity,
                    "replay_buffer_config.learning_starts",
                    learning_starts,
                    late,
                ),
                rules::refuse_if(
                    train_batch_size > capacity,
                    "replay_buffer_config.capacity",
                    capacity,
                    small,
                ),
            ]),
        };
        rules::all([
            capacity_rule,
            rules::share([
                ("replay_buffer_config.prioritized_replay_alpha", self.prioritized_replay_alpha),
                ("replay_buffer_config.prioritized_replay_beta", self.prioritized_replay_beta),
            ]),
            rules::above_zero([("replay_buffer_config.prioritized_replay_eps", self.prioritized_replay_eps)]),
        ])
    }
}
