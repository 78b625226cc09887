//! The wrapper that refuses steps before the first reset.

use super::{load, save};
use crate::{Env, Error, Frame, Result, Step};

const TAG: &str = "order_enforcing";

/// Refuses `step`, `render` and `render_ansi` before the first `reset`, so that the inner environment need not check for
/// them.
#[derive(Clone, Debug)]
pub struct OrderEnforcing<E> {
    env: E,
    has_reset: bool,
}

impl<E: Env> OrderEnforcing<E> {
    /// Wraps `env`.
    pub fn new(env: E) -> Self {
        Self { env, has_reset: false }
    }

    /// Returns the inner environment, whose calls are not checked.
    pub fn inner(&self) -> &E {
        &self.env
    }

    fn check(&self, call: &str) -> Result<()> {
        if self.has_reset {
            return Ok(());
        }
        Err(Error::other(format!("`{call}` before the first `reset`; call `reset` first")))
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for OrderEnforcing<E> {
    forward!(
        Obs,
        Act,
        observation_space,
        action_space,
        max_episode_steps,
        action_mask,
        set_task,
        goals,
        info
    );

    fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> Result<()> {
        self.has_reset = true;
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        self.check("step")?;
        self.env.step(action, obs)
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        self.check("render")?;
        self.env.render()
    }

    fn render_fps(&self) -> Option<f64> {
        self.env.render_fps()
    }

    fn render_ansi(&mut self) -> Result<Option<String>> {
        self.check("render_ansi")?;
        self.env.render_ansi()
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        save(TAG, &self.env, &self.has_reset)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.has_reset = load(TAG, &mut self.env, state, |_| Ok(()))?;
        Ok(())
    }
}
