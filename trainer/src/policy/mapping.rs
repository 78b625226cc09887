//! Which policy an agent acts by.

use crate::base::{Episode, PolicyId, derive};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Copies and episodes of each for which a function is asked beforehand, to find what it answers.
const TRIED_COPIES: u64 = 8;
const TRIED_EPISODES: u64 = 32;

/// Answers the name of an agent, when an episode begins, with the id of a policy.
type Answer = dyn Fn(&str, &Episode) -> PolicyId + Send + Sync;

/// Which policy an agent acts by.
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
    /// An agent acts by the same policy in all episodes.
    pub(crate) fn by_name(answer: impl Fn(&str) -> PolicyId + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(move |agent, _| answer(agent)), by_episode: false }
    }

    /// The function is asked at the beginning of each episode.
    pub(crate) fn by_episode(answer: impl Fn(&str, &Episode) -> PolicyId + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), by_episode: true }
    }

    /// Whether an agent may act by several policies.
    pub(crate) fn changes(&self) -> bool {
        self.by_episode
    }

    /// The policy of an agent in this episode.
    pub(crate) fn of(&self, agent: &str, episode: &Episode) -> PolicyId {
        (self.answer)(agent, episode)
    }

    /// The policies of an agent: all that it has in the first episodes, if they change.
    pub(crate) fn answers(&self, agent: &str) -> BTreeSet<PolicyId> {
        if !self.by_episode {
            return [self.of(agent, &Episode::default())].into();
        }
        let tried = (0..TRIED_COPIES).flat_map(|copy| (0..TRIED_EPISODES).map(move |number| (copy, number)));
        let answer = |(env_index, number)| {
            let seed = derive(env_index, "tried episode", number) >> 1;
            self.of(agent, &Episode { env_index, number, seed, ..Episode::default() })
        };
        tried.map(answer).collect()
    }
}
