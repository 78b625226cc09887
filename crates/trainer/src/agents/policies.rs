//! The policies of a run: how each is built, which agent acts by which, and which of them learn.

use crate::agents::agent::Agent;
use crate::agents::mapping::Mapping;
use crate::base::{DEFAULT_POLICY, Episode, PolicyId};
use crate::policy::PolicyClass;
use crate::settings::Common;
use pavlov_learn::base::{Error, Result, Spaces, derive};
use std::collections::{BTreeMap, BTreeSet};

/// The setting that maps agents to policies in evaluations.
pub(crate) const EVALUATED_BY: &str = "evaluation_config.policy_mapping_fn";

/// The policies of a run by id, which agent acts by which, and which of them learn.
///
/// ```
/// # use pavlov_trainer::agents::Policies;
/// # use pavlov_trainer::policy::PolicyClass;
/// # fn two(cats: PolicyClass, mice: PolicyClass) -> Policies {
/// Policies::new([("cats", cats), ("mice", mice)], |agent| if agent.starts_with("cat") { "cats" } else { "mice" })
/// # }
/// ```
#[derive(Clone)]
pub struct Policies {
    classes: BTreeMap<PolicyId, PolicyClass>,
    mapping: Mapping,
    /// The mapping from agents to policies in evaluations; `None` if it is `mapping` too.
    evaluated: Option<Mapping>,
    to_train: BTreeSet<PolicyId>,
    rotates: bool,
    /// The settings that all algorithms share, for each policy that overrides some of the run's.
    settings: BTreeMap<PolicyId, Common>,
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policies")
            .field("classes", &self.classes)
            .field("to_train", &self.to_train)
            .finish_non_exhaustive()
    }
}

/// Makes a single policy that all agents share.
impl From<PolicyClass> for Policies {
    fn from(class: PolicyClass) -> Self {
        Self::new([(DEFAULT_POLICY, class)], |_| DEFAULT_POLICY)
    }
}

impl Policies {
    /// Makes the policies of a run, all of which learn, from ids and classes. `mapping` returns the id of an agent's
    /// policy by the agent's name; it is called when a run begins, and its answers hold for the whole run.
    pub fn new<Id: Into<PolicyId>, To: Into<PolicyId>>(
        classes: impl IntoIterator<Item = (Id, PolicyClass)>,
        mapping: impl Fn(&str) -> To + Send + Sync + 'static,
    ) -> Self {
        Self::of_classes(classes, Mapping::by_name(move |agent| mapping(agent).into()))
    }

    pub(crate) fn of_classes<Id: Into<PolicyId>>(
        classes: impl IntoIterator<Item = (Id, PolicyClass)>,
        mapping: Mapping,
    ) -> Self {
        let classes: BTreeMap<_, _> = classes.into_iter().map(|(id, class)| (id.into(), class)).collect();
        let to_train = classes.keys().cloned().collect();
        Self { classes, mapping, evaluated: None, to_train, rotates: false, settings: BTreeMap::new() }
    }

    /// Lets only these policies learn. The other policies act, and their rows are dropped.
    #[must_use]
    pub fn training<Id: Into<PolicyId>>(mut self, ids: impl IntoIterator<Item = Id>) -> Self {
        self.to_train = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether policies move on by one agent from episode to episode of a copy. Then each agent acts by the policy
    /// that the next agent acted by in the episode before, and the last agent by that of the first agent. The mapping
    /// holds in episode 0 of copy 0; copy 1 is one episode ahead.
    #[must_use]
    pub fn rotating(self, rotates: bool) -> Self {
        Self { rotates, ..self }
    }

    /// Whether the policies move on by one agent after each episode.
    pub(crate) fn rotates(&self) -> bool {
        self.rotates
    }

    /// Whether agents may change their policies from episode to episode.
    pub(crate) fn change_seats(&self) -> bool {
        self.rotates || self.mapping.changes()
    }

    /// Replaces the mapping from agents to policies.
    pub(crate) fn mapped(self, mapping: Mapping) -> Self {
        Self { mapping, ..self }
    }

    /// Sets the mapping from agents to policies in evaluations.
    pub(crate) fn evaluated_by(self, mapping: Mapping) -> Self {
        Self { evaluated: Some(mapping), ..self }
    }

    /// The same policies with the mapping of evaluations.
    pub(crate) fn in_evaluation(&self) -> Self {
        match self.evaluated.clone() {
            Some(mapping) => Self { mapping, evaluated: Some(self.mapping.clone()), ..self.clone() },
            None => self.clone(),
        }
    }

    /// Every policy that an agent may act by, in training or evaluation.
    fn possible_policies(&self, agent: &str) -> BTreeSet<PolicyId> {
        let mappings = std::iter::once(&self.mapping).chain(&self.evaluated);
        mappings.flat_map(|mapping| mapping.possible_policies(agent)).collect()
    }

    /// Sets, by the policy's id, the settings that all algorithms share, for policies that override some of the run's.
    pub(crate) fn with_settings(mut self, settings: impl IntoIterator<Item = (PolicyId, Common)>) -> Self {
        self.settings.extend(settings);
        self
    }

    /// The settings that all algorithms share, as they hold for one policy: its own, or else those of the run (`run`).
    pub(crate) fn settings<'a>(&'a self, id: &str, run: &'a Common) -> &'a Common {
        self.settings.get(id).unwrap_or(run)
    }

    /// Id of the policy that an agent acts by; if the policy depends on the episode, of that in episode 0 of copy 0.
    pub fn of(&self, agent: &str) -> PolicyId {
        self.in_episode(agent, &Episode::default())
    }

    /// Id of the policy that the mapping gives an agent in this episode.
    pub(crate) fn in_episode(&self, agent: &str, episode: &Episode) -> PolicyId {
        self.mapping.of(agent, episode)
    }

    /// Whether the policy learns.
    pub fn trains(&self, id: &str) -> bool {
        self.to_train.contains(id)
    }

    /// The policies that learn, in the order of their ids.
    pub(crate) fn to_train(&self) -> impl Iterator<Item = &PolicyId> {
        self.to_train.iter()
    }

    /// Ids and policy classes, in the order of the ids.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (&PolicyId, &PolicyClass)> {
        self.classes.iter()
    }

    /// The class that builds the policy of that id.
    pub(crate) fn class(&self, id: &str) -> Result<&PolicyClass> {
        let unknown = || Error::UnknownPolicy { id: id.to_owned(), have: self.ids() };
        self.classes.get(id).ok_or_else(unknown)
    }

    /// The spaces of a policy, which are those of its agents. If a mapping function is called for each episode, a
    /// policy may get its first agent later; then all agents must have equal spaces.
    pub(crate) fn spaces<'a>(&self, id: &str, agents: &'a [Agent]) -> Result<&'a Spaces> {
        let own = agents.iter().find(|agent| self.possible_policies(&agent.name).contains(id));
        match own.or(agents.first().filter(|_| self.mapping.changes() && self.classes.contains_key(id))) {
            Some(agent) => Ok(&agent.spaces),
            None => Err(Error::UnknownPolicy { id: id.to_owned(), have: self.ids() }),
        }
    }

    /// Indices of the agents that act by a policy in some episode; none if the policy acts in evaluations only.
    pub(crate) fn agents_of(&self, id: &str, agents: &[Agent]) -> Result<Vec<usize>> {
        let spaces = self.spaces(id, agents)?;
        let takes_turns = self.rotates && agents.iter().any(|agent| self.of(&agent.name) == id);
        let acts = |agent: &Agent| {
            if self.mapping.changes() {
                agent.spaces == *spaces
            } else {
                takes_turns || self.of(&agent.name) == id
            }
        };
        Ok((0..agents.len()).filter(|&place| acts(&agents[place])).collect())
    }

    /// The id of the only policy of the run; an error if the run has several.
    pub(crate) fn sole(&self) -> Result<&str> {
        match (self.classes.first_key_value(), self.classes.len()) {
            (Some((id, _)), 1) => Ok(id),
            _ => {
                let reason = format!("it has several policies ({}), and one is asked for", self.ids());
                Err(Error::state(
                    "the run",
                    format!(
                        "{reason}; name it: `--policy ID`, or `session_of` and `load_policy` in a program"
                    ),
                ))
            }
        }
    }

    fn ids(&self) -> String {
        self.classes.keys().cloned().collect::<Vec<_>>().join(", ")
    }

    /// Refuses agents without a policy, policies without agents, and agents that share a policy although their spaces
    /// differ.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for an agent without a policy, a policy without agents, a mapping function that is
    /// called for each episode although there is one agent, or an unknown name in `policies_to_train`, and
    /// [`Error::State`] if the spaces of agents that share a policy differ.
    pub fn check(&self, agents: &[Agent]) -> Result<()> {
        let asked =
            [("multiagent.policy_mapping_fn", Some(&self.mapping)), (EVALUATED_BY, self.evaluated.as_ref())];
        let asked = asked.into_iter().find(|(_, mapping)| mapping.is_some_and(Mapping::changes));
        if let ([agent], Some((key, _))) = (agents, asked) {
            let rule = format!(
                "it is asked for each episode which agent acts by which policy, but there is one agent, `{}`; give a table",
                agent.name
            );
            return Err(Error::config(key, "the name of a function", rule));
        }
        let mut used: BTreeMap<PolicyId, &Agent> = BTreeMap::new();
        let acting = agents
            .iter()
            .flat_map(|agent| self.possible_policies(&agent.name).into_iter().map(move |id| (agent, id)));
        for (agent, id) in acting {
            if !self.classes.contains_key(&id) {
                return Err(self.unknown(&agent.name, &id));
            }
            let first = *used.entry(id.clone()).or_insert(agent);
            if first.spaces != agent.spaces {
                let of = |agent: &Agent| {
                    let Spaces { observation_space, action_space } = &agent.spaces;
                    format!("`{}` observes {observation_space} and does {action_space}", agent.name)
                };
                let reason = format!(
                    "its agents differ: {}, but {}; give them policies of their own in `multiagent.policies`",
                    of(first),
                    of(agent)
                );
                return Err(Error::state(format!("the policy `{id}`"), reason));
            }
        }
        let other = agents.iter().find(|agent| agent.spaces != agents[0].spaces).filter(|_| self.rotates);
        if let Some(agent) = other {
            let rule = format!(
                "then every policy acts for every agent, but `{}` and `{}` have other spaces; leave it out",
                agents[0].name, agent.name
            );
            return Err(Error::config("multiagent.rotate_policies", true, rule));
        }
        let equal = agents.iter().all(|agent| agent.spaces == agents[0].spaces);
        let comes_later = self.mapping.changes() && equal;
        if let Some(id) = self.classes.keys().find(|id| !used.contains_key(*id) && !comes_later) {
            let agents = agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
            let rule = format!(
                "no agent acts by it; there is {agents}. Name one in `multiagent.policy_mapping_fn`, or leave the policy out"
            );
            return Err(Error::config(format!("multiagent.policies.{id}"), "a policy", rule));
        }
        let key = "multiagent.policies_to_train";
        if let Some(id) = self.to_train.iter().find(|id| !self.classes.contains_key(*id)) {
            let rule = format!("there is {}; take one of these, or leave it out", self.ids());
            return Err(Error::config(key, format_args!("{id:?}"), rule));
        }
        let acts =
            |id: &str| agents.iter().any(|agent| self.mapping.possible_policies(&agent.name).contains(id));
        if let Some(id) =
            self.to_train.iter().find(|id| self.evaluated.is_some() && !comes_later && !acts(id))
        {
            let rule = "it learns, but only `evaluation_config.policy_mapping_fn` names it, so no agent collects rows for it; \
                        leave it out of `multiagent.policies_to_train`";
            return Err(Error::config(format!("multiagent.policies.{id}"), "a policy", rule));
        }
        if self.to_train.is_empty() {
            Err(Error::config(key, "[]", "at least one policy must learn; name one, or set it to null"))
        } else {
            Ok(())
        }
    }

    /// The warning about a mapping function that gives an unknown policy in a later episode, not in the first ones; `None`
    /// if it gives none.
    pub(crate) fn unknown_later(&self, agents: &[Agent]) -> Option<String> {
        let later = |agent: &Agent| {
            let (episode, id) =
                self.mapping.unknown_later(&agent.name, |id| self.classes.contains_key(id))?;
            Some(format!(
                "`multiagent.policy_mapping_fn` answers {id:?} for the agent `{}` in episode {} of environment copy {}, but \
                 there is {}: the run fails there unless that policy is added before. Answer with ids of \
                 `multiagent.policies`, or add it there",
                agent.name,
                episode.number,
                episode.env_index,
                self.ids()
            ))
        };
        agents.iter().find_map(later)
    }

    /// The error for an agent that is mapped to an unknown policy.
    fn unknown(&self, agent: &str, id: &str) -> Error {
        let key = if self.mapping.possible_policies(agent).contains(id) {
            "multiagent.policy_mapping_fn"
        } else {
            EVALUATED_BY
        };
        let rule = format!(
            "there is {}; name the agent there, or add the policy to `multiagent.policies`",
            self.ids()
        );
        Error::config(key, format!("{id:?} for the agent `{agent}`"), rule)
    }

    /// The seed of a policy's initial weights, derived from the run's seed; the policy [`DEFAULT_POLICY`] gets the run's
    /// seed itself.
    pub(crate) fn seed(run: u64, id: &str) -> u64 {
        match id {
            DEFAULT_POLICY => run,
            id => derive(run, &format!("policy {id}"), 0),
        }
    }
}
