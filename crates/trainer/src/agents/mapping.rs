//! The mapping from agents to policies: by patterns of agents' names, or by a function that the program registered.

use crate::base::{DEFAULT_POLICY, Episode, PolicyId};
use crate::settings::{PolicyMapping, answer, check};
use pavlov_learn::base::{Error, Result, derive, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Number of environment copies, from copy 0 on, for which a mapping function is called before a run to learn its answers.
const TRIED_COPIES: u64 = 8;
/// Number of episodes per copy, from episode 0 on, for which a mapping function is called before a run to learn its
/// answers.
const TRIED_EPISODES: u64 = 32;
/// A run checks at its start that the mapping function names known policies in this many episodes of each tried copy.
const FORESEEN_EPISODES: u64 = 4096;

/// Maps the name of an agent, and the episode that begins, to the id of a policy.
type Answer = dyn Fn(&str, &Episode) -> PolicyId + Send + Sync;

/// Maps agents to policies: by the agent's name alone, or anew for each episode.
#[derive(Clone)]
pub(crate) struct Mapping {
    answer: Arc<Answer>,
    by_episode: bool,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("by_episode", &self.by_episode).finish_non_exhaustive()
    }
}

impl Mapping {
    /// Makes a mapping by which an agent acts by the same policy in all episodes.
    pub(crate) fn by_name(answer: impl Fn(&str) -> PolicyId + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(move |agent, _| answer(agent)), by_episode: false }
    }

    /// Makes a mapping whose function is called at the beginning of each episode.
    pub(crate) fn by_episode(answer: impl Fn(&str, &Episode) -> PolicyId + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), by_episode: true }
    }

    /// Whether an agent may act by several policies, depending on the episode.
    pub(crate) fn changes(&self) -> bool {
        self.by_episode
    }

    /// The policy of an agent in this episode.
    pub(crate) fn of(&self, agent: &str, episode: &Episode) -> PolicyId {
        (self.answer)(agent, episode)
    }

    /// The policies that an agent may act by. If the policy depends on the episode, these are the policies of the first
    /// episodes of the first copies.
    pub(crate) fn possible_policies(&self, agent: &str) -> BTreeSet<PolicyId> {
        if !self.by_episode {
            return [self.of(agent, &Episode::default())].into();
        }
        self.tried(agent, 0..TRIED_EPISODES).map(|(_, id)| id).collect()
    }

    /// The first episode, after those that `possible_policies` tries, in which the mapping gives the agent an unknown
    /// policy, and that policy; `None` if no checked episode has one.
    pub(crate) fn unknown_later(
        &self,
        agent: &str,
        is_known: impl Fn(&PolicyId) -> bool,
    ) -> Option<(Episode, PolicyId)> {
        let numbers = TRIED_EPISODES..if self.by_episode { FORESEEN_EPISODES } else { TRIED_EPISODES };
        let unknown = self.tried(agent, numbers).filter(|(_, id)| !is_known(id));
        unknown.min_by_key(|(episode, _)| episode.number)
    }

    /// The policies of an agent in the episodes `numbers` of the first copies. The seeds of these episodes are made up.
    fn tried<'a>(
        &'a self,
        agent: &'a str,
        numbers: Range<u64>,
    ) -> impl Iterator<Item = (Episode, PolicyId)> + 'a {
        let tried = (0..TRIED_COPIES).flat_map(move |copy| numbers.clone().map(move |number| (copy, number)));
        tried.map(move |(env_index, number)| {
            let seed = derive(env_index, "tried episode", number) >> 1;
            let episode = Episode { env_index, number, seed, ..Episode::default() };
            let id = self.of(agent, &episode);
            (episode, id)
        })
    }
}

static REGISTERED: Mutex<BTreeMap<String, Mapping>> = Mutex::new(BTreeMap::new());

/// Registers a function under a name that `multiagent.policy_mapping_fn` can give: in settings files, in sweeps, in
/// the processes of workers, and in checkpoints. An earlier function of the same name is replaced.
///
/// The function is called when an episode begins, once for each agent; its answers hold for that episode. It gets the
/// agent's name and the facts known when the episode begins: the number of the environment copy in the whole run
/// (`env_index`), how many episodes that copy has finished (`number`), and the `seed`. Its answers must depend on
/// these alone, so that a run repeats bit for bit with any number of workers. It may be called for episodes that are
/// never played.
///
/// ```
/// // The first policy plays every second episode as `player_1`, and the others as `player_2`.
/// pavlov_trainer::register_policy_mapping_fn("by_turns", |agent, episode| {
///     if (agent == "player_1") == episode.number.is_multiple_of(2) { "first" } else { "second" }
/// });
/// ```
pub fn register_policy_mapping_fn<Id: Into<PolicyId>>(
    name: &str,
    mapping: impl Fn(&str, &Episode) -> Id + Send + Sync + 'static,
) {
    let mapping = Mapping::by_episode(move |agent, episode| mapping(agent, episode).into());
    lock(&REGISTERED).insert(name.to_owned(), mapping);
}

impl PolicyMapping {
    /// Refuses an unregistered function, patterns that match none of these agents, and two patterns of equal length
    /// that name different policies for one agent.
    pub(crate) fn check(&self, setting: &str, agents: &[&str]) -> Result<()> {
        match self {
            Self::Patterns(patterns) => check(setting, patterns, agents),
            Self::Registered(_) => self.mapping(setting).map(drop),
        }
    }

    pub(crate) fn mapping(&self, setting: &str) -> Result<Mapping> {
        match self.clone() {
            Self::Patterns(patterns) => Ok(Mapping::by_name(move |agent| {
                answer(&patterns, agent).unwrap_or(DEFAULT_POLICY).to_owned()
            })),
            Self::Registered(name) => {
                let registered = lock(&REGISTERED);
                let names = registered.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                registered.get(&name).cloned().ok_or_else(|| {
                    let have = if names.is_empty() { "has none".to_owned() } else { format!("has {names}") };
                    let rule = format!(
                        "no function is registered under this name: the program {have}. Call \
                         `register_policy_mapping_fn` at the beginning of `main`, or give a table of agents' names"
                    );
                    Error::config(setting, format_args!("{name:?}"), rule)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[(&str, &str)]) -> PolicyMapping {
        patterns.iter().copied().collect()
    }

    #[test]
    fn the_name_itself_goes_before_patterns_and_the_longest_pattern_before_the_others() {
        let all = patterns(&[("*", "all"), ("agent_*", "agents"), ("agent_0", "first"), ("a*0", "short")]);
        let of = |mapping: &PolicyMapping, agent: &str| {
            mapping.mapping("mapping").unwrap().of(agent, &Episode::default())
        };
        assert_eq!(
            ["agent_0", "agent_10", "b", ""].map(|agent| of(&all, agent)),
            ["first", "agents", "all", "all"]
        );
        assert_eq!(of(&PolicyMapping::default(), "agent_0"), DEFAULT_POLICY);
        assert_eq!(of(&patterns(&[("wolf_*", "wolves")]), "sheep_0"), DEFAULT_POLICY);
    }

    #[test]
    fn a_pattern_without_an_agent_and_two_that_disagree_are_refused() {
        let agents = ["ab", "b"];
        patterns(&[("*", "x"), ("a*", "y"), ("*b", "y")])
            .check("multiagent.policy_mapping_fn", &agents)
            .unwrap();
        let message =
            patterns(&[("c*", "x")]).check("multiagent.policy_mapping_fn", &agents).unwrap_err().to_string();
        assert_eq!(
            message,
            "`multiagent.policy_mapping_fn.c*` is \"x\", but no agent of this environment is named so; there is ab, b. \
             Name one of them, or leave it out"
        );
        let two = patterns(&[("a*", "x"), ("*b", "y"), ("b", "x")]);
        let message = two.check("multiagent.policy_mapping_fn", &agents).unwrap_err().to_string();
        assert!(
            message.contains("a pattern of the same length says") && message.contains("agent ab"),
            "{message}"
        );
        patterns(&[("a*", "x"), ("*b", "y"), ("b", "x"), ("ab", "x")])
            .check("multiagent.policy_mapping_fn", &agents)
            .unwrap();
    }

    #[test]
    fn a_function_is_found_by_its_name_and_asked_for_each_episode() {
        register_policy_mapping_fn("by_parity", |agent, episode| format!("{agent}_{}", episode.number % 2));
        let read = |value| serde_json::from_value::<PolicyMapping>(value).unwrap();
        let mapping = read(serde_json::json!("by_parity")).mapping("mapping").unwrap();
        let of = |number| mapping.of("a", &Episode { number, ..Episode::default() });
        assert_eq!([of(0), of(1), of(2)], ["a_0", "a_1", "a_0"]);
        assert_eq!(mapping.possible_policies("b"), ["b_0".to_owned(), "b_1".to_owned()].into());
        assert!(read(serde_json::Value::Null).is_empty());
        let message = read(serde_json::json!("by_party"))
            .check("multiagent.policy_mapping_fn", &["a"])
            .unwrap_err()
            .to_string();
        assert!(
            message
                .starts_with("`multiagent.policy_mapping_fn` is \"by_party\", but no function is registered")
                && message.contains("by_parity"),
            "{message}"
        );
    }

    #[test]
    fn an_answer_that_no_policy_has_is_foreseen_after_the_tried_episodes() {
        let mapping = Mapping::by_episode(|agent, episode| match (agent, episode.number) {
            ("a", 256..) => "x".to_owned(),
            _ => "first".to_owned(),
        });
        assert_eq!(
            mapping.possible_policies("a"),
            ["first".to_owned()].into(),
            "it is later than what is tried"
        );
        let later = |agent| mapping.unknown_later(agent, |id| id == "first");
        assert_eq!(later("a").map(|(episode, id)| (episode.number, id)), Some((256, "x".to_owned())));
        assert!(later("b").is_none());
        assert!(Mapping::by_name(|_| "x".to_owned()).unknown_later("a", |_| false).is_none());
    }
}
