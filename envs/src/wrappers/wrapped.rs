//! The adapter that puts a [`Wrapper`] around one copy of an environment.

use super::{Wrapper, load, save};
use crate::{Env, Result, Space, Step, running::sync_vector::check_space};

const TAG: &str = "wrapped";

/// An [`Env`] with a [`Wrapper`] around it, which changes its rewards, observations or actions.
#[derive(Clone, Debug)]
pub struct Wrapped<E: Env, W> {
    pub(super) env: E,
    wrapper: W,
    observation_space: Space,
    action_space: Space,
    /// Last observation of the inner environment.
    row: Vec<E::Obs>,
    /// Last action of the inner environment.
    action: Vec<E::Act>,
}

impl<E: Env, W: Wrapper<E::Obs, E::Act>> Wrapped<E, W> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`](crate::Error::Shape) if the wrapper does not fit `env`, or if a space of the wrapper is not
    /// valid, has no scalars, or does not match its scalar type.
    pub fn with(env: E, mut wrapper: W) -> Result<Self> {
        let observation_space = wrapper.observation_space(&env.observation_space())?;
        let action_space = wrapper.action_space(&env.action_space())?;
        check_space::<W::Obs>("the observation space of the wrapper", &observation_space)?;
        check_space::<W::Act>("the action space of the wrapper", &action_space)?;
        let row = vec![E::Obs::default(); env.observation_space().width()];
        let action = vec![E::Act::default(); env.action_space().width()];
        Ok(Self { env, wrapper, observation_space, action_space, row, action })
    }

    /// Returns the inner environment, without the wrapper.
    pub fn inner(&self) -> &E {
        &self.env
    }

    /// Returns the wrapper.
    pub fn wrapper(&self) -> &W {
        &self.wrapper
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env, W: Wrapper<E::Obs, E::Act>> Env for Wrapped<E, W> {
    type Obs = W::Obs;
    type Act = W::Act;

    forward!(max_episode_steps, action_mask, set_task, no_goals, info, render);

    fn observation_space(&self) -> Space {
        self.observation_space.clone()
    }

    fn action_space(&self) -> Space {
        self.action_space.clone()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [W::Obs]) -> Result<()> {
        self.env.reset(seed, &mut self.row)?;
        self.wrapper.reset(seed);
        self.wrapper.observation(&self.row, obs)
    }

    fn step(&mut self, action: &[W::Act], obs: &mut [W::Obs]) -> Result<Step> {
        self.wrapper.action(action, &mut self.action)?;
        let step = self.env.step(&self.action, &mut self.row)?;
        self.wrapper.observation(&self.row, obs)?;
        Ok(Step { reward: self.wrapper.reward(step.reward), ..step })
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        save(TAG, &self.env, &self.wrapper.save_state())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let own: Vec<u8> = load(TAG, &mut self.env, state, |_| Ok(()))?;
        self.wrapper.load_state(&own)
    }
}
