//! The settings `multiagent.policy_mapping_fn` and `evaluation_config.policy_mapping_fn`: patterns of agents' names, or a function that the program registered.

use crate::base::{DEFAULT_POLICY, Episode, Error, PolicyId, Result, lock, rules};
use crate::policy::Mapping;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;
use std::sync::Mutex;

static REGISTERED: Mutex<BTreeMap<String, Mapping>> = Mutex::new(BTreeMap::new());

/// Which policy an agent acts by.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PolicyMapping {
    /// Ids of policies by the names of agents, in which `*` stands for any characters. Of several patterns that match the
    /// longest one counts, and before all patterns the name itself. An agent that no pattern matches acts by
    /// `default_policy`.
    Patterns(BTreeMap<String, PolicyId>),
    /// The function that [`register_policy_mapping_fn`] got under this name.
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

/// Reads patterns, the name of a function, or Ray's default, null.
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

/// Gives a function a name, by which `multiagent.policy_mapping_fn` finds it: in settings files, in sweeps, in the processes of
/// workers, and in checkpoints. A function of the same name is replaced.
///
/// The function is asked when an episode begins, once for each agent: its answers hold for that episode. It gets the agent's
/// name, and of the episode what is known by then: the number of the environment copy in the whole run (`env_index`), how many
/// episodes that copy has finished (`number`), and the `seed`. Its answers must follow from these alone, so that a run repeats
/// bit for bit with any number of workers. It may be asked for episodes that are never played.
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
    /// Whether the setting says nothing.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Patterns(patterns) if patterns.is_empty())
    }

    /// Refuses a function that was not registered, patterns that match none of these agents, and two of equal length that
    /// disagree about one.
    pub(super) fn check(&self, setting: &str, agents: &[&str]) -> Result<()> {
        match self {
            Self::Patterns(patterns) => check(setting, patterns, agents),
            Self::Registered(_) => self.mapping(setting).map(drop),
        }
    }

    pub(super) fn mapping(&self, setting: &str) -> Result<Mapping> {
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

/// Refuses patterns that match none of these agents, and two of equal length that disagree about one.
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

/// What stands under the agent's name, or else under the longest pattern that matches it.
pub(crate) fn answer<'a>(patterns: &'a BTreeMap<String, String>, agent: &str) -> Option<&'a str> {
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
        assert_eq!(mapping.answers("b"), ["b_0".to_owned(), "b_1".to_owned()].into());
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
}
