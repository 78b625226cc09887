//! The `multiagent` settings: which policies there are, and which agent acts by which.

use crate::base::{
    error::{Error, Result},
    rules,
    train_batch::{DEFAULT_POLICY, PolicyId},
};
use pavlov_tune::Config;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;

/// The `multiagent` setting. Without it all agents share one policy, [`DEFAULT_POLICY`].
///
/// ```toml
/// [multiagent]
/// policies_to_train = ["first"]
///
/// [multiagent.policies]
/// first = { lr = 1e-3 }
/// others = {}
///
/// [multiagent.policy_mapping_fn]
/// agent_0 = "first"
/// "agent_*" = "others"
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MultiAgentConfig {
    /// The policies by id, each with the settings that it has instead of the run's; `{}` where there are none. A list of
    /// ids is fine, too.
    #[serde(deserialize_with = "ids_or_settings")]
    pub policies: BTreeMap<PolicyId, Config>,
    /// Which policy an agent acts by: ids of policies by the names of agents, in which `*` stands for any characters. Of
    /// several patterns that match the longest one counts, and before all patterns the name itself. An agent that no
    /// pattern matches acts by `default_policy`.
    #[serde(deserialize_with = "null_is_none")]
    pub policy_mapping_fn: BTreeMap<String, PolicyId>,
    /// In each episode of a copy every agent acts by the policy that the agent behind it acted by in the one before, so that
    /// policies take turns in all seats; `policy_mapping_fn` says how it is in episode 0 of copy 0. All agents must have equal
    /// spaces then.
    pub rotate_policies: bool,
    /// The policies that learn; all if null. The others act, and no rows are kept of them.
    pub policies_to_train: Option<Vec<PolicyId>>,
    /// What agents see besides their own observations.
    pub observation_fn: Option<ObservationFn>,
    /// Agents that are one agent together: names of groups by the names of agents, with `*` as in `policy_mapping_fn`. A group
    /// sees a tuple of what its members see, chooses for all of them, and gets the sum of their rewards. All other settings
    /// then know the groups by their names, and the agents no more.
    #[serde(deserialize_with = "null_is_none")]
    pub agent_groups: BTreeMap<String, String>,
    /// What `train_batch_size` and the least numbers of steps per result count.
    pub count_steps_by: CountStepsBy,
}

/// What agents see besides their own observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationFn {
    /// Critics see the observations of all agents, as in MAPPO (Yu et al. 2022); actors see their own, in training as later.
    /// Observations become `Dict(obs, state)`. When a policy acts, it does not read `state`: zeros do.
    GlobalState,
}

/// A unit of experience.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountStepsBy {
    /// A step of an environment, however many agents act in it.
    #[default]
    EnvSteps,
    /// A step of one agent of a policy that learns.
    AgentSteps,
}

/// Reads policies with settings of their own, or a list of ids.
fn ids_or_settings<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<PolicyId, Config>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Policies {
        Settings(BTreeMap<PolicyId, Config>),
        Ids(Vec<PolicyId>),
    }
    let expected = "it must be a table of ids with settings, such as { first = { lr = 1e-3 }, others = {} }, or a list of ids";
    Ok(match Option::<Policies>::deserialize(from).map_err(|_| de::Error::custom(expected))? {
        None => BTreeMap::new(),
        Some(Policies::Settings(policies)) => policies,
        Some(Policies::Ids(ids)) => ids.into_iter().map(|id| (id, Config::new())).collect(),
    })
}

/// Ray's default for a mapping is null.
fn null_is_none<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, PolicyId>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl MultiAgentConfig {
    /// Checks the ids of the policies.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for an id that cannot be part of a file's name.
    pub fn validate(&self) -> Result<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        rules::all(self.policies.keys().map(|id| {
            let rule = "the id of a policy is made of letters, digits, `_` and `-`: files are named after it";
            let broken = id.is_empty() || !id.chars().all(is_plain);
            rules::refuse_if(broken, "multiagent.policies", format_args!("{id:?}"), rule)
        }))
    }

    /// Returns the policy that an agent acts by.
    pub fn policy_of(&self, agent: &str) -> &str {
        answer(&self.policy_mapping_fn, agent).unwrap_or(DEFAULT_POLICY)
    }

    /// Returns the group that an agent belongs to, if there is one.
    pub fn group_of(&self, agent: &str) -> Option<&str> {
        answer(&self.agent_groups, agent)
    }

    /// Refuses patterns of the mapping that match none of these agents, and two of equal length that disagree about one.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for such a pattern; fails as [`rules::all`] does where there are several.
    pub fn check_patterns(&self, agents: &[&str]) -> Result<()> {
        check("multiagent.policy_mapping_fn", &self.policy_mapping_fn, agents)
    }

    /// As [`check_patterns`](Self::check_patterns), the patterns of the groups. The agents are those that are to be grouped.
    ///
    /// # Errors
    /// Fails as [`check_patterns`](Self::check_patterns) does.
    pub fn check_groups(&self, agents: &[&str]) -> Result<()> {
        check("multiagent.agent_groups", &self.agent_groups, agents)
    }
}

fn check(setting: &str, patterns: &BTreeMap<String, String>, agents: &[&str]) -> Result<()> {
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

/// What stands under the agent's name, or else under the longest pattern that matches it.
fn answer<'a>(patterns: &'a BTreeMap<String, String>, agent: &str) -> Option<&'a str> {
    if let Some(answer) = patterns.get(agent) {
        return Some(answer);
    }
    let matching = patterns.iter().filter(|(pattern, _)| matches(pattern, agent));
    matching.max_by_key(|(pattern, _)| literal(pattern)).map(|(_, answer)| answer.as_str())
}

/// Characters that stand for themselves.
fn literal(pattern: &str) -> usize {
    pattern.chars().filter(|c| *c != '*').count()
}

/// Whether `name` is `pattern`, in which `*` stands for any characters or none.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|skipped| rest.get(skipped..).is_some_and(|rest| matches(behind, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(patterns: &[(&str, &str)]) -> MultiAgentConfig {
        let pair = |(pattern, id): &(&str, &str)| ((*pattern).to_owned(), (*id).to_owned());
        MultiAgentConfig { policy_mapping_fn: patterns.iter().map(pair).collect(), ..Default::default() }
    }

    #[test]
    fn the_name_itself_goes_before_patterns_and_the_longest_pattern_before_the_others() {
        let config = mapping(&[("*", "all"), ("agent_*", "agents"), ("agent_0", "first"), ("a*0", "short")]);
        let of = |agent| config.policy_of(agent);
        assert_eq!([of("agent_0"), of("agent_10"), of("b"), of("")], ["first", "agents", "all", "all"]);
        assert_eq!(MultiAgentConfig::default().policy_of("agent_0"), DEFAULT_POLICY);
        assert_eq!(mapping(&[("wolf_*", "wolves")]).policy_of("sheep_0"), DEFAULT_POLICY);
        let groups = MultiAgentConfig { agent_groups: config.policy_mapping_fn, ..Default::default() };
        assert_eq!(
            ["agent_0", "agent_10"].map(|agent| groups.group_of(agent)),
            [Some("first"), Some("agents")]
        );
        assert_eq!(MultiAgentConfig::default().group_of("agent_0"), None);
    }

    #[test]
    fn a_pattern_without_an_agent_and_two_that_disagree_are_refused() {
        let agents = ["ab", "b"];
        mapping(&[("*", "x"), ("a*", "y"), ("*b", "y")]).check_patterns(&agents).unwrap();
        let message = mapping(&[("c*", "x")]).check_patterns(&agents).unwrap_err().to_string();
        assert_eq!(
            message,
            "`multiagent.policy_mapping_fn.c*` is \"x\", but no agent of this environment is named so; there is ab, b. \
             Name one of them, or leave it out"
        );
        let two = mapping(&[("a*", "x"), ("*b", "y"), ("b", "x")]);
        let message = two.check_patterns(&agents).unwrap_err().to_string();
        assert!(
            message.contains("a pattern of the same length says") && message.contains("agent ab"),
            "{message}"
        );
        mapping(&[("a*", "x"), ("*b", "y"), ("b", "x"), ("ab", "x")]).check_patterns(&agents).unwrap();
    }

    #[test]
    fn policies_are_read_from_a_list_of_ids_too() {
        let read = |value| serde_json::from_value::<MultiAgentConfig>(value).map(|config| config.policies);
        let ids = read(serde_json::json!({"policies": ["a", "b"]})).unwrap();
        assert_eq!(ids, read(serde_json::json!({"policies": {"a": {}, "b": {}}})).unwrap());
        let bad =
            MultiAgentConfig { policies: [("a/b".to_owned(), Config::new())].into(), ..Default::default() };
        let message = bad.validate().unwrap_err().to_string();
        assert!(message.contains("\"a/b\"") && message.contains("letters, digits"), "{message}");
    }
}
