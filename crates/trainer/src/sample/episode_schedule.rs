//! The schedule of an evaluation: it says which copy plays which episode, and keeps the results.

use crate::agents::PolicyAssignment;
use crate::base::{Episode, notice};
use pavlov_learn::base::{Error, Result, Stream, derive};
use std::time::{Duration, Instant};

/// Largest number of steps per episode: without a time limit a greedy policy may never reach an end.
const MAX_STEPS: u64 = 1_000_000;

/// Time without a finished episode after which the user is told that there is no time limit.
const PATIENCE: Duration = Duration::from_secs(5);

/// The episodes of an evaluation, divided among copies: copy `i` of `n` plays the episodes at positions `i`, `i + n`,
/// `i + 2n`, ... The result of an episode depends only on the evaluation's seed and the episode's number.
#[derive(Debug)]
pub(crate) struct EpisodeSchedule<'a> {
    /// Numbers of the episodes to play.
    episodes: &'a [u64],
    /// Seed of the evaluation.
    seed: u64,
    /// Assigns agents to policies; `None` for a single agent.
    seating: Option<PolicyAssignment>,
    worker: usize,
    /// For each copy, the position in `episodes` of the episode that it plays.
    at: Vec<usize>,
    /// For each copy, the episode that it plays.
    running: Vec<Episode>,
    /// For each copy, the seed of its next episode.
    next_seeds: Vec<u64>,
    /// The finished episodes, by their position in `episodes`.
    done: Vec<Option<Episode>>,
    /// Number of episodes that are not finished.
    left: usize,
    /// An environment without a time limit: its name, and the time after which the user is told that no episode has ended.
    unlimited: Option<(String, Duration)>,
    began: Instant,
}

impl<'a> EpisodeSchedule<'a> {
    /// Divides the episodes among `copies` copies; `seating` assigns agents to policies and is `None` for a single
    /// agent.
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
            unlimited: None,
            began: Instant::now(),
        };
        roster.running = (0..copies).map(|position| roster.fresh(position)).collect();
        roster.next_seeds = (copies..2 * copies).map(|position| roster.seed_of(position)).collect();
        roster
    }

    /// Tells the user after some seconds if no episode ends, in an environment of this name without a time limit.
    pub(crate) fn without_limit(mut self, env: Option<&str>) -> Self {
        self.unlimited = env.map(|env| (env.to_owned(), PATIENCE));
        self
    }

    /// The warning about an environment whose episodes may never end, once.
    fn endless(&mut self, steps: u64) -> Option<String> {
        let (began, is_first) = (self.began, self.left == self.episodes.len());
        let (env, _) = self.unlimited.take_if(|(_, patience)| is_first && began.elapsed() > *patience)?;
        Some(format!(
            "no episode of {env} has ended in {steps} steps, and it has no time limit: an episode is given up after \
             {MAX_STEPS} steps. Give it a limit: the wrapper `TimeLimit`, or `max_episode_steps` where it is registered"
        ))
    }

    /// Seed of the episode at a position in `episodes`; 0 after the last position.
    fn seed_of(&self, position: usize) -> u64 {
        self.episodes.get(position).map_or(0, |&k| derive(self.seed, "evaluation episode", k) >> 1)
    }

    /// Makes an episode without steps, for a position in `episodes`.
    fn fresh(&self, position: usize) -> Episode {
        let number = self.episodes.get(position).copied().unwrap_or_default();
        let mut episode = Episode { number, seed: self.seed_of(position), ..Episode::default() };
        if let Some(seating) = &self.seating {
            episode.agent_rewards = seating.of(&episode);
        }
        episode
    }

    /// For each copy, the seed of the episode that it plays now.
    pub(crate) fn seeds(&self) -> Vec<u64> {
        self.running.iter().map(|episode| episode.seed).collect()
    }

    /// For each copy, the seed of its next episode.
    pub(crate) fn next_seeds(&self) -> &[u64] {
        &self.next_seeds
    }

    /// The episode that one copy plays now.
    pub(crate) fn running(&self, copy: usize) -> &Episode {
        &self.running[copy]
    }

    /// Makes the random stream of one agent in the episode that a copy plays now; a single agent has index 0.
    pub(crate) fn stream(&self, copy: usize, agent: usize) -> Stream {
        Stream::new(self.running[copy].seed, "evaluation action", agent as u64)
    }

    /// Whether copy 0 plays its first episode.
    pub(crate) fn at_first(&self) -> bool {
        self.at[0] == 0
    }

    /// Whether some episodes are still unfinished.
    pub(crate) fn goes_on(&self) -> bool {
        self.left > 0
    }

    /// Adds a step of one copy: `reward` is the sum over all agents, `agents` the reward of each agent.
    pub(crate) fn count(&mut self, copy: usize, reward: f64, agents: &[f64]) -> Result<()> {
        let episode = &mut self.running[copy];
        episode.total_reward += reward;
        episode.length += 1;
        for (sum, reward) in episode.agent_rewards.iter_mut().zip(agents) {
            sum.reward += reward;
        }
        if episode.length > MAX_STEPS {
            let reason = format!(
                "episode {} has not ended in {MAX_STEPS} steps; give the environment a time limit (`TimeLimit`)",
                episode.number
            );
            return Err(Error::Worker { worker: self.worker, reason });
        }
        let steps = episode.length;
        if let Some(text) = self.endless(steps) {
            notice(&text);
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

    /// The finished episodes, in the order in which the task lists them.
    pub(crate) fn into_episodes(self) -> Vec<Episode> {
        self.done.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_without_a_limit_whose_episodes_do_not_end_is_told_once() {
        let mut roster = EpisodeSchedule::new(&[0, 1], 0, 2, None, 0).without_limit(Some("Maze"));
        assert_eq!(roster.endless(10), None, "five seconds have not passed");
        let soon =
            |roster: &mut EpisodeSchedule<'_>| roster.unlimited = Some(("Maze".into(), Duration::ZERO));
        soon(&mut roster);
        let text = roster.endless(10).expect("a warning");
        assert!(
            text.starts_with("no episode of Maze has ended in 10 steps, and it has no time limit"),
            "{text}"
        );
        assert_eq!(roster.endless(11), None);
        // Where episodes end, one that takes longer is no reason.
        soon(&mut roster);
        roster.follow(0);
        assert_eq!(roster.endless(12), None);
    }
}
