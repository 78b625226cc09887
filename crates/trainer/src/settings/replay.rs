//! The settings that all algorithms with a replay buffer share.

use crate::settings::common::Common;
use pavlov_learn::base::{Result, rules};
use serde::{Deserialize, Serialize};

/// How rows are drawn from a replay buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayKind {
    /// All rows are drawn with equal probability.
    #[serde(alias = "MultiAgentReplayBuffer", alias = "LocalReplayBuffer")]
    ReplayBuffer,
    /// Rows are drawn with probabilities by their error when they were last trained on (Schaul et al. 2016).
    #[default]
    #[serde(alias = "MultiAgentPrioritizedReplayBuffer")]
    PrioritizedReplayBuffer,
}

/// The `replay_buffer_config` setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayBufferConfig {
    /// How rows are drawn: uniformly or by priority.
    #[serde(rename = "type")]
    pub kind: ReplayKind,
    /// Number of rows that are kept; new rows replace the oldest.
    pub capacity: usize,
    /// Number of rows that must be stored before learning starts.
    pub learning_starts: usize,
    /// Exponent of the priorities, from 0 (all rows equally often) to 1 (in proportion to their error).
    pub prioritized_replay_alpha: f64,
    /// Exponent of the importance weights, from 0 (none) to 1 (they correct the whole bias of drawing by priority).
    pub prioritized_replay_beta: f64,
    /// Number above 0 that is added to every error, so that every row can be drawn.
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
    /// Checks these settings, also against the number of rows in a training batch.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) for the setting that breaks a rule; fails as [`rules::all`] does
    /// if several do.
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

/// Settings of algorithms that learn from a replay buffer. Put them under `#[serde(flatten)]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OffPolicy {
    /// Settings of the replay buffer.
    pub replay_buffer_config: ReplayBufferConfig,
    /// Whether checkpoints store the replay buffer. Without it a continued run starts with an empty one.
    pub store_buffer_in_checkpoints: bool,
    /// Number of rows to train on per sampled row; null trains on one batch per fragment.
    pub training_intensity: Option<f64>,
    /// Number of environment steps to sample between two updates of the target network; with 0 every learning step
    /// updates it.
    pub target_network_update_freq: u64,
    /// Number of rewards that a target sums up before it adds the value of the observation after them.
    pub n_step: usize,
}

impl Default for OffPolicy {
    fn default() -> Self {
        Self {
            replay_buffer_config: ReplayBufferConfig::default(),
            store_buffer_in_checkpoints: true,
            training_intensity: None,
            target_network_update_freq: 0,
            n_step: 1,
        }
    }
}

impl OffPolicy {
    /// Returns an error for settings with which no learning is possible.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) for the setting that breaks a rule; fails as [`rules::all`] does
    /// if several do.
    pub fn validate(&self, common: &Common) -> Result<()> {
        let recurrent = if common.model.use_gru { "model.use_gru" } else { "model.use_lstm" };
        let rule = "the replay buffer keeps rows, not sequences, so far; leave it out, or use PPO";
        let capacity = self.replay_buffer_config.capacity;
        rules::all([
            rules::refuse_if(common.model.is_recurrent(), recurrent, true, rule),
            self.replay_buffer_config.validate(common.train_batch_size),
            rules::at_least_one([("n_step", self.n_step)]),
            rules::refuse_if(
                self.n_step > capacity && capacity > 0,
                "n_step",
                self.n_step,
                format!("it must be at most {capacity} (`replay_buffer_config.capacity`)"),
            ),
            rules::above_zero_or_null([("training_intensity", self.training_intensity)]),
        ])
    }
}
