//! The `multiagent` settings: which policies there are, and which agent acts by which.

use crate::base::{Error, PolicyId, Result, rules};
use crate::settings::mapping::{PolicyMapping, answer, check};
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
    /// The policies by id, each with the settings that it has instead of the run's; `{}` where there are none. A list of
    /// ids is fine, too.
    #[serde(deserialize_with = "ids_or_settings")]
    pub policies: BTreeMap<PolicyId, Config>,
    /// Which policy an agent acts by: a table of agents' names, or the name of a function that is asked for each episode.
    pub policy_mapping_fn: PolicyMapping,
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
    /// How rows of several policies are drawn from their replay buffers.
    pub replay_mode: ReplayMode,
    /// So many policies stay in memory, in the learner and in each worker. The states of others wait in files, and are read when
    /// a policy acts or learns: the one that was not used for the longest time makes room.
    pub policy_map_capacity: usize,
    /// The folder for these files; that of the machine for temporary files if null. The run removes them.
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

/// How rows of several policies are drawn from their replay buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayMode {
    /// Each policy's rows are drawn by themselves.
    #[default]
    Independent,
    /// Rows that were sampled in the same steps are drawn together: row `i` of one policy's batch is of the same step as row `i` of
    /// another's. Buffers must draw uniformly, and policies must have equally many rows of each step.
    Lockstep,
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
    /// Checks the ids of the policies, and how many stay in memory.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for an id that cannot be part of a file's name, a capacity of 0, and a folder that nothing would
    /// be written to.
    pub fn validate(&self) -> Result<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let ids = self.policies.keys().map(|id| {
            let rule = "the id of a policy is made of letters, digits, `_` and `-`: files are named after it";
            let broken = id.is_empty() || !id.chars().all(is_plain);
            rules::refuse_if(broken, "multiagent.policies", format_args!("{id:?}"), rule)
        });
        let (capacity, key) = (self.policy_map_capacity, "multiagent.policy_map_capacity");
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

    /// Returns the group that an agent belongs to, if there is one.
    pub fn group_of(&self, agent: &str) -> Option<&str> {
        answer(&self.agent_groups, agent)
    }

    /// Refuses patterns of groups that match none of these agents, which are to be grouped, and two of equal length that
    /// disagree about one.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for such a pattern; fails as [`rules::all`] does where there are several.
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
