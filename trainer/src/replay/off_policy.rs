//! The settings that all algorithms with a replay buffer share.

use crate::base::{Result, rules};
use crate::replay::ReplayBufferConfig;
use crate::run::Common;
use serde::{Deserialize, Serialize};

/// Settings of learning from a replay buffer. Put them under `#[serde(flatten)]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OffPolicy {
    /// The store of experience.
    pub replay_buffer_config: ReplayBufferConfig,
    /// Keep the replay buffer in checkpoints. Without it a continued run starts with an empty one.
    pub store_buffer_in_checkpoints: bool,
    /// Trained rows per sampled step; null learns one batch per fragment.
    pub training_intensity: Option<f64>,
    /// Sampled environment steps between two moves of the target network; 0 moves it after every learning step.
    pub target_network_update_freq: u64,
    /// Steps of reward before the value of what follows.
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
    /// Refuses what no learning can be done with.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) for the setting that breaks a rule; fails as [`rules::all`] does
    /// where several do.
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
