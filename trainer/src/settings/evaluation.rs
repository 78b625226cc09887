//! Settings of evaluations.

use crate::base::Result;
use crate::settings::mapping::PolicyMapping;
use pavlov_tune::Config;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// How much one evaluation plays: a number, or `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationDuration {
    /// An evaluation lasts as long as the training beside it (`evaluation_parallel_to_training`): one episode per
    /// evaluation worker, and again until training is done. How many episodes that are depends on the machine, and with
    /// it everything that follows from their mean; episode `k` and what training learns do not.
    Auto,
    /// An evaluation lasts so many units of `evaluation_duration_unit`.
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

/// The unit of `evaluation_duration`, if that is a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurationUnit {
    /// Units are whole episodes.
    #[default]
    Episodes,
    /// Units are environment steps, rounded up to whole episodes.
    Timesteps,
}

/// Settings that an evaluation changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationConfig {
    /// Sample from stochastic policies and explore with others; false chooses the best known action.
    pub explore: bool,
    /// Arguments of the environment, merged over `env_config`.
    pub env_config: Config,
    /// Another environment to evaluate in, with the same spaces.
    pub env: Option<String>,
    /// Which policy an agent acts by, in place of `multiagent.policy_mapping_fn`: fixed opponents, for example. It may name
    /// policies that no agent acts by in training, if they do not learn (`multiagent.policies_to_train`).
    pub policy_mapping_fn: Option<PolicyMapping>,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self { explore: false, env_config: Config::new(), env: None, policy_mapping_fn: None }
    }
}
