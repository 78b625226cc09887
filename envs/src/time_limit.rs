//! A limit on the steps of an episode.

use crate::{
    Env, Frame, Result, Space, Step,
    state::{StateReader, StateWriter},
};

const TAG: &str = "time_limit";

/// Truncates episodes of the inner environment that have not ended after `limit` steps.
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

    /// The environment without the limit.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

impl<E: Env> Env for TimeLimit<E> {
    type Obs = E::Obs;
    type Act = E::Act;

    fn observation_space(&self) -> Space {
        self.env.observation_space()
    }

    fn action_space(&self) -> Space {
        self.env.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> Result<()> {
        self.step = 0;
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        let step = self.env.step(action, obs)?;
        self.step += 1;
        Ok(Step { truncated: !step.terminated && (step.truncated || self.step >= self.limit), ..step })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(self.env.max_episode_steps().map_or(self.limit, |inner| inner.min(self.limit)))
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        self.env.render()
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let inner = self.env.save_state()?;
        let mut state = StateWriter::new(TAG);
        state.u64(self.step as u64);
        state.bytes(&inner);
        Some(state.finish())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let mut state = StateReader::new(TAG, state)?;
        let step = state.u64()? as usize;
        self.env.load_state(state.bytes()?)?;
        self.step = step;
        state.finish()
    }
}
