//! The `multiagent` settings: the policies, and the mapping of agents to policies.

use crate::base::PolicyId;
use crate::settings::mapping::{PolicyMapping, answer, check};
use pavlov_learn::base::{Error, Result, rules};
use pavlov_tune::Config;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The `multiagent` setting. Without it all agents share one policy, [`DEFAULT_POLICY`](crate::batch::DEFAULT_POLICY).
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MultiAgentConfig {
    /// Policies by id, each with those of its settings that differ from the run's; `{}` if none differs. A list of ids
    /// is allowed, too.
    #[serde(deserialize_with = "ids_or_settings")]
    pub policies: BTreeMap<PolicyId, Config>,
    /// The policy of each agent: a table from agents' names to ids of policies, or the name of a function that is
    /// called for each episode.
    pub policy_mapping_fn: PolicyMapping,
    /// After each episode of a copy, every agent takes the policy of the next agent, so that each policy acts for each
    /// agent in turn; `policy_mapping_fn` holds in episode 0 of copy 0. All agents must have equal spaces.
    pub rotate_policies: bool,
    /// Ids of the policies that learn; null for all. The other policies act, and their rows are not stored.
    pub policies_to_train: Option<Vec<PolicyId>>,
    /// Function that extends each agent's observations; null for none.
    pub observation_fn: Option<ObservationFn>,
    /// Groups of agents that act as one agent: a table from agents' names to groups' names, with `*` as in
    /// `policy_mapping_fn`. A group observes a tuple of its members' observations, chooses actions for all members, and
    /// gets the sum of their rewards. All other settings use the groups' names instead of the agents'.
    #[serde(deserialize_with = "null_is_none")]
    pub agent_groups: BTreeMap<String, String>,
    /// Unit of `train_batch_size`, `min_sample_timesteps_per_reporting` and `min_train_timesteps_per_reporting`.
    pub count_steps_by: CountStepsBy,
    /// How rows of several policies are drawn from their replay buffers: independently, or of the same steps.
    pub replay_mode: ReplayMode,
    /// Number of policies that the learner, and each worker, keeps in memory. Other policies are stored in files, and
    /// each is read when it acts or learns, in place of the least recently used policy.
    pub policy_map_capacity: usize,
    /// Folder for the files of policies that are not in memory; null for the machine's folder of temporary files. The
    /// run removes its files.
    pub policy_map_cache: Option<PathBuf>,
}

impl Default for MultiAgentConfig {
    fn default() -> Self {
        Self {
            policies: BTreeMap::new(),
            policy_mapping_fn: PolicyMapping::default(),
            rotate_policies: false,
            policies_to_train: None,
            observation_fn: None,
            agent_groups: BTreeMap::new(),
            count_steps_by: CountStepsBy::default(),
            replay_mode: ReplayMode::default(),
            policy_map_capacity: 100,
            policy_map_cache: None,
        }
    }
}

/// Function that extends each agent's observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationFn {
    /// Adds the observations of all agents as a global state for critics, as in MAPPO (Yu et al. 2022); actors see only
    /// their own observation. Observations become `Dict(obs, state)`. Acting does not read `state`, so zeros may
    /// replace it.
    GlobalState,
}

/// The unit in which experience is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountStepsBy {
    /// Environment steps, however many agents act in each.
    #[default]
    EnvSteps,
    /// Steps of single agents whose policies learn.
    AgentSteps,
}

/// How rows of several policies are drawn from their replay buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayMode {
    /// Each policy draws its rows independently.
    #[default]
    Independent,
    /// Rows of the same environment steps are drawn together: row `i` of the batches of all policies is from the same
    /// step. Buffers must draw uniformly, and all policies must have equally many rows of each step.
    Lockstep,
}

/// Reads a table of policies with their settings, or a list of ids.
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

/// Reads a mapping; null, which is Ray's default, becomes an empty mapping.
fn null_is_none<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, PolicyId>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl MultiAgentConfig {
    /// Checks the ids of policies, the number of policies in memory, and the folder for the others.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for an id that cannot be part of a file's name, for a `policy_map_capacity` of 0, and
    /// for a folder that no policy would need.
    pub fn validate(&self) -> Result<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let ids = self.policies.keys().map(|id| {
            let rule = "the id of a policy is made of letters, digits, `_` and `-`: files are named after it";
            let broken = id.is_empty() || !id.chars().all(is_plain);
            rules::refuse_if(broken, "multiagent.policies", format_args!("{id:?}"), rule)
        });
        let capacity = self.policy_map_capacity;
        let key = "multiagent.policy_map_capacity";
        let memory = [rules::refuse_if(
            capacity == 0,
            key,
            0,
            "at least the policy in use is in memory; set it to 1 or more",
        )];
        let cache =
            self.policy_map_cache.as_ref().filter(|_| (1..=capacity).contains(&self.policies.len())).map(
                |cache| {
                    let rule = format!(
                        "all policies stay in memory (`policy_map_capacity` is {capacity}); leave it out"
                    );
                    Err(Error::config("multiagent.policy_map_cache", format_args!("{cache:?}"), rule))
                },
            );
        rules::all(ids.chain(memory).chain(cache))
    }

    /// The group that an agent belongs to; `None` if it is in no group.
    pub fn group_of(&self, agent: &str) -> Option<&str> {
        answer(&self.agent_groups, agent)
    }

    /// Returns an error for a pattern in `agent_groups` that matches none of these agents, and for two patterns of
    /// equal length that put an agent into different groups.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for such a pattern; fails as [`rules::all`] does if there are several.
    pub fn check_groups(&self, agents: &[&str]) -> Result<()> {
        check("multiagent.agent_groups", &self.agent_groups, agents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_belongs_to_the_group_of_the_longest_pattern_that_matches_it() {
        let pair = |(pattern, group): (&str, &str)| (pattern.to_owned(), group.to_owned());
        let agent_groups = [("agent_*", "agents"), ("agent_0", "first")].map(pair).into();
        let groups = MultiAgentConfig { agent_groups, ..Default::default() };
        assert_eq!(
            ["agent_0", "agent_10", "b"].map(|agent| groups.group_of(agent)),
            [Some("first"), Some("agents"), None]
        );
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
