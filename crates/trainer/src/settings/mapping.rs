//! The settings `multiagent.policy_mapping_fn` and `evaluation_config.policy_mapping_fn`: patterns of agents' names, or
//! a function that the program registered.

use crate::base::PolicyId;
use pavlov_learn::base::{Error, Result, rules};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;

/// How agents are mapped to policies.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PolicyMapping {
    /// Ids of policies by patterns of agents' names, in which `*` matches any characters. An exact name takes
    /// precedence over patterns, and of several matching patterns the longest counts. An agent without a match acts by
    /// `default_policy`.
    Patterns(BTreeMap<String, PolicyId>),
    /// The function that was passed to [`register_policy_mapping_fn`](crate::register_policy_mapping_fn) under this name.
    Registered(String),
}

impl Default for PolicyMapping {
    fn default() -> Self {
        Self::Patterns(BTreeMap::new())
    }
}

impl<Agent: Into<String>, Id: Into<PolicyId>> FromIterator<(Agent, Id)> for PolicyMapping {
    fn from_iter<I: IntoIterator<Item = (Agent, Id)>>(patterns: I) -> Self {
        Self::Patterns(patterns.into_iter().map(|(agent, id)| (agent.into(), id.into())).collect())
    }
}

impl<Agent: Into<String>, Id: Into<PolicyId>, const N: usize> From<[(Agent, Id); N]> for PolicyMapping {
    fn from(patterns: [(Agent, Id); N]) -> Self {
        patterns.into_iter().collect()
    }
}

/// Reads patterns, the name of a function, or null, Ray's default, which gives an empty mapping.
impl<'de> Deserialize<'de> for PolicyMapping {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Read {
            Patterns(BTreeMap<String, PolicyId>),
            Registered(String),
        }
        let expected = "it must be a table of agents' names with ids of policies, such as { agent_0 = \"first\", \
                        \"agent_*\" = \"others\" }, or the name of a function that the program registered";
        Ok(match Option::<Read>::deserialize(from).map_err(|_| de::Error::custom(expected))? {
            None => Self::default(),
            Some(Read::Patterns(patterns)) => Self::Patterns(patterns),
            Some(Read::Registered(name)) => Self::Registered(name),
        })
    }
}

impl PolicyMapping {
    /// Whether the mapping is empty, so that all agents act by `default_policy`.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Patterns(patterns) if patterns.is_empty())
    }
}

/// Returns an error for a pattern that matches no agent, and for two patterns of equal length that give one agent
/// different values.
pub(crate) fn check(setting: &str, patterns: &BTreeMap<String, String>, agents: &[&str]) -> Result<()> {
    let key = |pattern: &str| format!("{setting}.{pattern}");
    let unused = patterns.iter().map(|(pattern, id)| {
        let rule = format!(
            "no agent of this environment is named so; there is {}. Name one of them, or leave it out",
            agents.join(", ")
        );
        let used = agents.iter().any(|agent| matches(pattern, agent));
        rules::refuse_if(!used, &key(pattern), format_args!("{id:?}"), rule)
    });
    let ambiguous = agents.iter().map(|agent| {
        let Some(chosen) = answer(patterns, agent).filter(|_| !patterns.contains_key(*agent)) else {
            return Ok(());
        };
        let longest = |pattern: &str| {
            let of = |(other, _): (&String, _)| matches(other, agent).then(|| literal(other));
            Some(literal(pattern)) == patterns.iter().filter_map(of).max()
        };
        let other = patterns
            .iter()
            .find(|(pattern, id)| matches(pattern, agent) && longest(pattern) && *id != chosen);
        let Some((pattern, id)) = other else { return Ok(()) };
        let rule = format!(
            "a pattern of the same length says \"{chosen}\" of the agent {agent}; give that agent a line of its own"
        );
        Err(Error::config(key(pattern), format_args!("{id:?}"), rule))
    });
    rules::all(unused.chain(ambiguous))
}

/// The value under the agent's exact name, or else under the longest pattern that matches the name; `None` without a
/// match.
pub(crate) fn answer<'a>(patterns: &'a BTreeMap<String, String>, agent: &str) -> Option<&'a str> {
    if let Some(answer) = patterns.get(agent) {
        return Some(answer);
    }
    let matching = patterns.iter().filter(|(pattern, _)| matches(pattern, agent));
    matching.max_by_key(|(pattern, _)| literal(pattern)).map(|(_, answer)| answer.as_str())
}

/// Number of characters of a pattern other than `*`.
fn literal(pattern: &str) -> usize {
    pattern.chars().filter(|c| *c != '*').count()
}

/// Whether `name` matches `pattern`, in which `*` matches any characters or none.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|skipped| rest.get(skipped..).is_some_and(|rest| matches(behind, rest)))
}
