//! Which copy plays which episode of an evaluation, and the results.

use crate::agents::PolicyAssignment;
use crate::base::{Episode, Error, Result, Stream, derive};

/// Limit of steps per episode: without a time limit a greedy policy may stand still for ever.
const MOST_STEPS: u64 = 1_000_000;

/// The episodes of an evaluation, shared out to copies: copy `i` of `n` plays the episodes at positions `i`, `i + n`,
/// `i + 2n`, ... The result of an episode depends on the evaluation's seed and the episode's number only.
#[derive(Debug)]
pub(crate) struct EpisodeSchedule<'a> {
    episodes: &'a [u64],
    seed: u64,
    seating: Option<PolicyAssignment>,
    worker: usize,
    /// For each copy: the position in `episodes` of the episode that it plays, the episode itself, and its next seed.
    at: Vec<usize>,
    running: Vec<Episode>,
    next_seeds: Vec<u64>,
    done: Vec<Option<Episode>>,
    left: usize,
}

impl<'a> EpisodeSchedule<'a> {
    /// Shares out the episodes to `copies` copies; `seating` is `None` for a single agent.
    pub(crate) fn new(
        episodes: &'a [u64],
        seed: u64,
        copies: usize,
        seating: Option<PolicyAssignment>,
        worker: usize,
    ) -> Self {
        let mut roster = Self {
            episodes,
            seed,
            seating,
            worker,
            at: (0..copies).collect(),
            running: Vec::new(),
            next_seeds: Vec::new(),
            done: vec![None; episodes.len()],
            left: episodes.len(),
        };
        roster.running = (0..copies).map(|position| roster.fresh(position)).collect();
        roster.next_seeds = (copies..2 * copies).map(|position| roster.seed_of(position)).collect();
        roster
    }

    fn seed_of(&self, position: usize) -> u64 {
        self.episodes.get(position).map_or(0, |&k| derive(self.seed, "evaluation episode", k) >> 1)
    }

    fn fresh(&self, position: usize) -> Episode {
        let number = self.episodes.get(position).copied().unwrap_or_default();
        let mut episode = Episode { number, seed: self.seed_of(position), ..Episode::default() };
        if let Some(seating) = &self.seating {
            episode.agent_rewards = seating.of(&episode);
        }
        episode
    }

    /// Seeds of the episodes that are played now.
    pub(crate) fn seeds(&self) -> Vec<u64> {
        self.running.iter().map(|episode| episode.seed).collect()
    }

    /// Seeds of each copy's next episode.
    pub(crate) fn next_seeds(&self) -> &[u64] {
        &self.next_seeds
    }

    /// The episode that one copy plays now.
    pub(crate) fn running(&self, copy: usize) -> &Episode {
        &self.running[copy]
    }

    /// Random stream of one agent in one copy's episode; a single agent has number 0.
    pub(crate) fn stream(&self, copy: usize, agent: usize) -> Stream {
        Stream::new(self.running[copy].seed, "evaluation action", agent as u64)
    }

    /// Whether copy 0 plays its first episode.
    pub(crate) fn at_first(&self) -> bool {
        self.at[0] == 0
    }

    /// Whether some episodes are not finished.
    pub(crate) fn goes_on(&self) -> bool {
        self.left > 0
    }

    /// Counts a step of one copy: `reward` of all agents together, `agents` the reward of each.
    pub(crate) fn count(&mut self, copy: usize, reward: f64, agents: &[f64]) -> Result<()> {
        let episode = &mut self.running[copy];
        episode.total_reward += reward;
        episode.length += 1;
        for (sum, reward) in episode.agent_rewards.iter_mut().zip(agents) {
            sum.reward += reward;
        }
        if episode.length > MOST_STEPS {
            let reason = format!(
                "episode {} has not ended in {MOST_STEPS} steps; give the environment a time limit (`TimeLimit`)",
                episode.number
            );
            return Err(Error::Worker { worker: self.worker, reason });
        }
        Ok(())
    }

    /// Finishes the episode of one copy and starts its next one.
    pub(crate) fn follow(&mut self, copy: usize) {
        let copies = self.at.len();
        let next = self.fresh(self.at[copy] + copies);
        let finished = std::mem::replace(&mut self.running[copy], next);
        if let Some(slot) = self.done.get_mut(self.at[copy]) {
            *slot = Some(finished);
            self.left -= 1;
        }
        self.at[copy] += copies;
        self.next_seeds[copy] = self.seed_of(self.at[copy] + copies);
    }

    /// The finished episodes, in the order of the request.
    pub(crate) fn into_episodes(self) -> Vec<Episode> {
        self.done.into_iter().flatten().collect()
    }
}
