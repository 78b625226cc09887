//! Settings of evaluations.

use crate::settings::mapping::PolicyMapping;
use pavlov_learn::base::Result;
use pavlov_tune::Config;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// Length of one evaluation: a number, or `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationDuration {
    /// An evaluation lasts as long as the training beside it (`evaluation_parallel_to_training`): each evaluation
    /// worker plays one episode after another until training is done. The number of episodes, and so their mean,
    /// depends on the machine; the result of episode `k` and the learned weights do not.
    Auto,
    /// An evaluation lasts this many units of `evaluation_duration_unit`.
    Units(u64),
}

impl Serialize for EvaluationDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Units(units) => serializer.serialize_u64(*units),
        }
    }
}

impl<'de> Deserialize<'de> for EvaluationDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.as_u64() {
            Some(units) => Ok(Self::Units(units)),
            None if value == "auto" => Ok(Self::Auto),
            None => Err(de::Error::custom("it must be a whole number, 1 or more, or \"auto\"")),
        }
    }
}

/// The unit of `evaluation_duration`, if the duration is a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurationUnit {
    /// The unit is an episode.
    #[default]
    Episodes,
    /// The unit is an environment step; the evaluation still ends with a whole episode.
    Timesteps,
}

/// The settings that are different in evaluations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationConfig {
    /// Whether policies explore, or sample their actions; otherwise they take the best known action.
    pub explore: bool,
    /// Arguments of the environment that override `env_config` in evaluations.
    pub env_config: Config,
    /// Another environment to evaluate in, with the same spaces.
    pub env: Option<String>,
    /// The policy of each agent in evaluations, in place of `multiagent.policy_mapping_fn`: for fixed opponents, for
    /// example. It may name policies by which no agent acts in training, if these do not learn
    /// (`multiagent.policies_to_train`).
    pub policy_mapping_fn: Option<PolicyMapping>,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self { explore: false, env_config: Config::new(), env: None, policy_mapping_fn: None }
    }
}
