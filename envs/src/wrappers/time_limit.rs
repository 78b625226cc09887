//! The wrapper that limits the steps of an episode.

use super::{load, save};
use crate::{Env, Result, Step};

const TAG: &str = "time_limit";

/// Truncates episodes of the inner environment after `limit` steps. `truncated` is also set if the last of these steps
/// terminates.
#[derive(Clone, Debug)]
pub struct TimeLimit<E> {
    env: E,
    limit: usize,
    step: usize,
}

impl<E: Env> TimeLimit<E> {
    /// Wraps `env`; a `limit` of 0 acts as 1.
    pub fn new(env: E, limit: usize) -> Self {
        Self { env, limit, step: 0 }
    }

    /// Returns the inner environment, which has no such limit.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for TimeLimit<E> {
    forward!(Obs, Act, observation_space, action_space, action_mask, set_task, goals, info, render);

    fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> Result<()> {
        self.step = 0;
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        let step = self.env.step(action, obs)?;
        self.step = self.step.saturating_add(1);
        Ok(Step { truncated: step.truncated || self.step >= self.limit, ..step })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(self.env.max_episode_steps().map_or(self.limit, |inner| inner.min(self.limit)))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        save(TAG, &self.env, &self.step)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.step = load(TAG, &mut self.env, state, |_| Ok(()))?;
        Ok(())
    }
}
