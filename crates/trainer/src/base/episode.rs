//! The record of one episode of one environment copy, while it runs and when it is reported.

use pavlov_learn::base::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The record of one episode: callbacks get it, and results are computed from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Index of the environment copy in the whole run.
    pub env_index: u64,
    /// Number of episodes that this environment copy finished before this one.
    pub number: u64,
    /// Seed that the environment was reset with: the same seed and the same actions give the same episode.
    pub seed: u64,
    /// Sum of rewards, unclipped.
    #[serde(with = "number")]
    pub total_reward: f64,
    /// Number of environment steps of the episode so far.
    pub length: u64,
    /// Returns of the agents, in the order of the agents; empty if there is one agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_rewards: Vec<AgentReward>,
    /// Numbers that a callback added; results average them over episodes as `custom_metrics`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "numbers")]
    pub custom_metrics: BTreeMap<String, f64>,
    /// Lists that a callback added; results join them over episodes as `hist_stats`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "number_lists")]
    pub hist_data: BTreeMap<String, Vec<f64>>,
}

/// The return of one agent in one episode, with unclipped rewards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentReward {
    /// The agent's name.
    pub agent: String,
    /// Id of the policy that the agent acts by.
    pub policy: PolicyId,
    /// The sum of the agent's rewards.
    #[serde(with = "number")]
    pub reward: f64,
}

/// A number as it is saved: NaN and the infinities, which JSON does not have, become text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Other(String),
}

impl Number {
    fn new(value: f64) -> Self {
        if value.is_finite() { Self::Finite(value) } else { Self::Other(value.to_string()) }
    }

    fn value<E: serde::de::Error>(self) -> Result<f64, E> {
        match self {
            Self::Finite(value) => Ok(value),
            Self::Other(text) => text.parse().map_err(|_| E::custom(format!("{text:?} is not a number"))),
        }
    }
}

mod number {
    use super::Number;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
        Number::new(*number).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Number::deserialize(from)?.value()
    }
}

mod numbers {
    use super::{BTreeMap, Number};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(map: &BTreeMap<String, f64>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(map.iter().map(|(name, value)| (name, Number::new(*value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
        let map = BTreeMap::<String, Number>::deserialize(from)?;
        map.into_iter().map(|(name, number)| Ok((name, number.value()?))).collect()
    }
}

mod number_lists {
    use super::{BTreeMap, Number};
    use serde::{Deserialize, Deserializer, Serializer};

    type Lists = BTreeMap<String, Vec<f64>>;

    pub(crate) fn serialize<S: Serializer>(map: &Lists, to: S) -> Result<S::Ok, S::Error> {
        let numbers = |list: &Vec<f64>| list.iter().copied().map(Number::new).collect::<Vec<_>>();
        to.collect_map(map.iter().map(|(name, list)| (name, numbers(list))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Lists, D::Error> {
        let map = BTreeMap::<String, Vec<Number>>::deserialize(from)?;
        map.into_iter()
            .map(|(name, list)| Ok((name, list.into_iter().map(Number::value).collect::<Result<_, _>>()?)))
            .collect()
    }
}

/// The id of a policy.
pub type PolicyId = String;

/// The id of the only policy of a single-agent run.
pub const DEFAULT_POLICY: &str = "default_policy";

/// Name of a part of a run that belongs to one policy: `name` alone for the default policy, otherwise followed by the
/// policy's id.
pub(crate) fn part_of(name: &str, id: &str) -> String {
    if id == DEFAULT_POLICY { name.to_owned() } else { format!("{name}_{id}") }
}
