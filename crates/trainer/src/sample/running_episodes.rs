//! The episodes in progress, which are updated at every step, and the check that rewards and observations are finite.

use crate::agents::PolicyAssignment;
use crate::base::Episode;
use crate::sample::callbacks::{Callbacks, StepView};
use pavlov_learn::base::{Error, Result, State, episode_seed};
use pavlov_learn::experience::EpisodeStart;

/// The running episode of each copy, the seed of its next episode, and the episodes that ended.
#[derive(Debug)]
pub(crate) struct RunningEpisodes {
    /// Seed of the run, from which the seeds of episodes are derived.
    run_seed: u64,
    /// The running episode of each copy.
    running: Vec<Episode>,
    /// Seed of each copy's next episode.
    next_seeds: Vec<u64>,
    /// Episodes that ended since the last call of [`take_finished`](Self::take_finished).
    finished: Vec<Episode>,
    /// Assigns agents to policies; `None` in single-agent environments.
    seating: Option<PolicyAssignment>,
    /// Number of environment steps in all complete fragments.
    sampled: u64,
}

impl RunningEpisodes {
    /// Starts the first episode of each of `copies` copies; `first_env` is the index of the first copy among all copies
    /// of the run.
    pub(crate) fn new(run_seed: u64, first_env: u64, copies: usize) -> Self {
        let running: Vec<Episode> = (0..copies as u64)
            .map(|i| Episode {
                env_index: first_env + i,
                seed: episode_seed(run_seed, first_env + i, 0),
                ..Episode::default()
            })
            .collect();
        let next_seeds = running.iter().map(|e| next_seed(run_seed, e)).collect();
        Self { run_seed, running, next_seeds, finished: Vec::new(), seating: None, sampled: 0 }
    }

    /// Makes every episode record the policy and the reward of each agent.
    pub(crate) fn with_agents(mut self, seating: PolicyAssignment) -> Self {
        for episode in &mut self.running {
            episode.agent_rewards = seating.of(episode);
        }
        self.seating = Some(seating);
        self
    }

    /// The running episode of copy `i`.
    pub(crate) fn running(&self, i: usize) -> &Episode {
        &self.running[i]
    }

    /// Adds the rewards of one step, one per agent, to the episode of copy `i`.
    pub(crate) fn reward_agents(&mut self, i: usize, rewards: &[f64]) {
        for (agent, reward) in self.running[i].agent_rewards.iter_mut().zip(rewards) {
            agent.reward += reward;
        }
    }

    /// Adds a number to the custom metrics of the episode of copy `i`.
    pub(crate) fn add_metric(&mut self, i: usize, name: &str, value: f64) {
        self.running[i].custom_metrics.insert(name.to_owned(), value);
    }

    /// Number of environment steps in all complete fragments.
    pub(crate) fn sampled(&self) -> u64 {
        self.sampled
    }

    /// Number of environment copies.
    pub(crate) fn copies(&self) -> usize {
        self.running.len()
    }

    /// For each copy, the seed of its running episode.
    pub(crate) fn seeds(&self) -> Vec<u64> {
        self.running.iter().map(|e| e.seed).collect()
    }

    /// For each copy, the seed of its next episode.
    pub(crate) fn next_seeds(&self) -> &[u64] {
        &self.next_seeds
    }

    /// For each copy, whether its running episode has no steps yet.
    pub(crate) fn beginnings(&self) -> impl Iterator<Item = bool> {
        self.running.iter().map(|e| e.length == 0)
    }

    /// For each copy, its number and the number of steps of its running episode.
    pub(crate) fn starts(&self) -> impl Iterator<Item = EpisodeStart> {
        self.running.iter().map(|e| EpisodeStart { env_id: e.env_index, steps: e.length })
    }

    /// Calls `on_episode_start` for every running episode.
    pub(crate) fn start(&mut self, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        if let Some(callbacks) = callbacks {
            for episode in &mut self.running {
                callbacks.on_episode_start(episode)?;
            }
        }
        Ok(())
    }

    /// Adds a step to the episode of copy `i`; `reward` is the sum over all agents. If the episode has ended, it is
    /// moved to the finished ones and the next one starts.
    pub(crate) fn step(
        &mut self,
        i: usize,
        reward: f64,
        step: StepView<'_>,
        callbacks: &mut Option<&mut Box<dyn Callbacks>>,
    ) -> Result<()> {
        let episode = &mut self.running[i];
        episode.total_reward += reward;
        episode.length += 1;
        let ended = step.terminated || step.truncated;
        if let Some(callbacks) = callbacks {
            callbacks.on_episode_step(episode, step)?;
            if ended {
                callbacks.on_episode_end(episode)?;
            }
        }
        if ended {
            let ended = self.follow(i);
            self.finished.push(ended);
            if let Some(callbacks) = callbacks {
                callbacks.on_episode_start(&mut self.running[i])?;
            }
        }
        Ok(())
    }

    /// Starts the next episode of copy `i`; returns the episode before it.
    pub(crate) fn follow(&mut self, i: usize) -> Episode {
        let episode = &mut self.running[i];
        let mut next = Episode {
            env_index: episode.env_index,
            number: episode.number + 1,
            seed: self.next_seeds[i],
            ..Episode::default()
        };
        if let Some(seating) = &self.seating {
            next.agent_rewards = seating.of(&next);
        }
        self.next_seeds[i] = next_seed(self.run_seed, &next);
        std::mem::replace(episode, next)
    }

    /// Drops the running episode of every copy, which cannot be continued, and starts the next one.
    pub(crate) fn follow_all(&mut self) {
        (0..self.running.len()).for_each(|i| drop(self.follow(i)));
    }

    /// Returns the episodes that ended since the last call.
    pub(crate) fn take_finished(&mut self) -> Vec<Episode> {
        std::mem::take(&mut self.finished)
    }

    /// Checks the numbers of a fragment and counts its steps. Returns an error if a number is not finite.
    pub(crate) fn check_and_count(&mut self, numbers: Numbers<'_>) -> Result<()> {
        numbers.check(&self.running, self.sampled)?;
        self.sampled += numbers.rewards.len() as u64;
        Ok(())
    }

    /// Returns the error for the first number that is not finite in the observations `[copies, width]` of step `t`;
    /// `None` if all are finite.
    pub(crate) fn not_finite(&self, obs: &[f32], width: usize, t: usize) -> Option<Error> {
        let i = not_finite_at(obs)?;
        let copy = self.running[i / width].env_index;
        let steps = self.sampled + (t * self.running.len()) as u64;
        Some(Error::NotFinite {
            what: observed(i % width, copy),
            value: f64::from(obs[i]),
            step: steps,
            hint: HINT.into(),
        })
    }

    /// Adds `steps` to the number of sampled environment steps; returns the new number.
    pub(crate) fn count(&mut self, steps: u64) -> u64 {
        self.sampled += steps;
        self.sampled
    }

    /// Saves the episodes and the number of sampled steps, for [`set_state`](Self::set_state).
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        state.set("episodes", &self.running)?;
        state.set("finished", &self.finished)?;
        state.set("sampled", &self.sampled)
    }

    /// Restores the episodes and the number of sampled steps that [`save`](Self::save) wrote.
    pub(crate) fn set_state(&mut self, state: &State) -> Result<()> {
        let running: Vec<Episode> = state.get("episodes")?;
        if running.len() != self.running.len() {
            let reason = format!(
                "it holds {} environment copies, but this worker has {}; `num_workers` and `num_envs_per_worker` must be those of the saved run",
                running.len(),
                self.running.len()
            );
            return Err(Error::state("a worker's environments", reason));
        }
        self.running = running;
        self.finished = state.get("finished")?;
        self.sampled = state.get("sampled")?;
        self.next_seeds = self.running.iter().map(|e| next_seed(self.run_seed, e)).collect();
        Ok(())
    }
}

/// The advice in errors about numbers that are not finite.
const HINT: &str = "look at what the environment computes, or normalise its observations and rewards";

/// Names a component of an observation in errors.
fn observed(component: usize, copy: u64) -> String {
    format!("component {component} of an observation of environment copy {copy}")
}

/// Seed of the episode after `episode` in the same copy.
fn next_seed(run_seed: u64, episode: &Episode) -> u64 {
    episode_seed(run_seed, episode.env_index, episode.number + 1)
}

/// Index of the first number that is not finite; `None` if all are finite.
pub(crate) fn not_finite_at(numbers: &[f32]) -> Option<usize> {
    // Checking all numbers uses vector instructions; stopping at the first bad one would not.
    let finite = numbers.iter().fold(true, |finite, x| finite & x.is_finite());
    if finite { None } else { numbers.iter().position(|x| !x.is_finite()) }
}

/// Rewards and observations of a fragment, time-major, for the check that they are finite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers<'a> {
    /// Rewards, `[T * N]`.
    pub(crate) rewards: &'a [f32],
    /// Observations, `[(T + 1) * N, width]`.
    pub(crate) obs: &'a [f32],
    /// Indices `t * N + copy` of the steps at which episodes ended, and their last observations, `[ended, width]`.
    pub(crate) ended: (&'a [usize], &'a [f32]),
    /// Number of components of an observation.
    pub(crate) width: usize,
}

impl Numbers<'_> {
    /// Returns an error for the first number that is not finite; `before` is the number of environment steps sampled
    /// before the fragment.
    fn check(&self, episodes: &[Episode], before: u64) -> Result<()> {
        let n = episodes.len();
        let width = self.width;
        let copy = |row: usize| episodes[row % n].env_index;
        // `rows` is the number of steps of this fragment up to the error.
        let error = |what: String, value: f32, rows: usize| {
            let value = f64::from(value);
            let step = before + rows as u64;
            Err(Error::NotFinite { what, value, step, hint: HINT.into() })
        };
        let component = |i: usize, copy| observed(i % width, copy);
        if let Some(row) = not_finite_at(self.rewards) {
            let what = format!("the reward of environment copy {}", copy(row));
            return error(what, self.rewards[row], row + 1);
        }
        let (ended, ended_obs) = self.ended;
        if let Some(i) = not_finite_at(ended_obs) {
            let row = ended[i / width];
            return error(component(i, copy(row)), ended_obs[i], row + 1);
        }
        if let Some(i) = not_finite_at(self.obs) {
            // Row `t` of a copy was written by its step `t - 1`, and row 0 by the reset.
            let row = i / width;
            return error(component(i, copy(row)), self.obs[i], (row + 1).saturating_sub(n));
        }
        Ok(())
    }
}
