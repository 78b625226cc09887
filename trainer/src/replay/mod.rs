//! Experience replay: a ring of rows, drawn uniformly or by priority.

mod buffer;
pub(crate) mod fragments;
mod frames;
pub(crate) mod minibatch_buffer;
mod off_policy;
mod sum_tree;

pub use buffer::ReplayBuffer;
pub use off_policy::OffPolicy;
pub use sum_tree::SumTree;

use crate::base::{
    error::{Error, Result},
    lock,
    train_batch::PolicyId,
};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard};

/// The buffer of a policy's rows, shared by the steps of a plan.
#[derive(Clone, Debug)]
pub struct SharedReplay {
    policy: PolicyId,
    buffer: Arc<Mutex<ReplayBuffer>>,
}

impl SharedReplay {
    /// Shares a buffer of that policy's rows.
    pub fn new(policy: impl Into<PolicyId>, buffer: ReplayBuffer) -> Self {
        Self { policy: policy.into(), buffer: Arc::new(Mutex::new(buffer)) }
    }

    /// Whose rows these are.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The buffer itself, for this caller alone until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, ReplayBuffer> {
        lock(&self.buffer)
    }
}

/// How rows are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayKind {
    /// Every row equally often.
    #[serde(alias = "MultiAgentReplayBuffer", alias = "LocalReplayBuffer")]
    ReplayBuffer,
    /// In proportion to the error at the last visit (Schaul et al. 2016).
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
    /// Rows kept; the oldest make room.
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
    /// Rules between the settings and with the rows drawn at a time.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn validate(&self, train_batch_size: usize) -> Result<()> {
        let error = |key: &str, value: &dyn std::fmt::Display, rule: String| {
            Err(Error::config(format!("replay_buffer_config.{key}"), value, rule))
        };
        if self.capacity == 0 {
            return error("capacity", &0, "it must be at least 1".into());
        }
        if self.learning_starts > self.capacity {
            let rule = format!(
                "it must be at most {} (`replay_buffer_config.capacity`), or learning never starts",
                self.capacity
            );
            return error("learning_starts", &self.learning_starts, rule);
        }
        if train_batch_size > self.capacity {
            let rule = format!("it must be at least {train_batch_size} (`train_batch_size`)");
            return error("capacity", &self.capacity, rule);
        }
        for (key, value) in [
            ("prioritized_replay_alpha", self.prioritized_replay_alpha),
            ("prioritized_replay_beta", self.prioritized_replay_beta),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return error(key, &value, "it must be in 0..=1".into());
            }
        }
        if !(self.prioritized_replay_eps > 0.0 && self.prioritized_replay_eps.is_finite()) {
            return error(
                "prioritized_replay_eps",
                &self.prioritized_replay_eps,
                "it must be above 0".into(),
            );
        }
        Ok(())
    }
}
