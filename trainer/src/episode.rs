//! One episode of one environment copy, while it runs and as it is reported.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What callbacks see of an episode, and what results are computed from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// The copy's index in the whole run.
    pub env_index: u64,
    /// How many episodes this copy has finished before.
    pub number: u64,
    /// What the environment was reset with: replaying it with the same actions gives the same episode.
    pub seed: u64,
    /// Sum of rewards, unclipped.
    pub total_reward: f64,
    /// Environment steps.
    pub length: u64,
    /// Numbers of yours, averaged over episodes as `custom_metrics` in results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_metrics: BTreeMap<String, f64>,
    /// Lists of yours, joined over episodes as `hist_stats` in results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hist_data: BTreeMap<String, Vec<f64>>,
}
