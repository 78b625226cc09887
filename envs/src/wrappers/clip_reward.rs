//! The wrapper that clips rewards.

use crate::{Env, Error, Result, Step, StepOut, VectorEnv};

/// Clips every reward of an [`Env`] or a [`VectorEnv`] to `min_reward..=max_reward`. An infinite bound means no bound.
#[derive(Clone, Debug)]
pub struct ClipReward<E> {
    env: E,
    min_reward: f64,
    max_reward: f64,
}

impl<E> ClipReward<E> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless `min_reward <= max_reward`.
    pub fn new(env: E, min_reward: f64, max_reward: f64) -> Result<Self> {
        if min_reward <= max_reward {
            return Ok(Self { env, min_reward, max_reward });
        }
        Err(Error::shape("`min_reward`", min_reward, format_args!("at most {max_reward} (`max_reward`)")))
    }

    /// Returns the inner environment, whose rewards are not clipped.
    pub fn inner(&self) -> &E {
        &self.env
    }

    fn clip(&self, rewards: &mut [f32]) {
        let min = self.min_reward as f32;
        let max = self.max_reward as f32;
        rewards.iter_mut().for_each(|reward| *reward = reward.clamp(min, max));
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for ClipReward<E> {
    forward!(
        Obs,
        Act,
        observation_space,
        action_space,
        reset,
        max_episode_steps,
        action_mask,
        set_task,
        no_goals,
        info,
        render
    );
    forward!(state);

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        let step = self.env.step(action, obs)?;
        Ok(Step { reward: step.reward.clamp(self.min_reward, self.max_reward), ..step })
    }
}

impl<V: VectorEnv> VectorEnv for ClipReward<V> {
    forward_vector!(
        Obs,
        Act,
        num_envs,
        limit_episodes,
        set_autoreset,
        set_task,
        observation_space,
        action_space,
        reset,
        action_masks,
        info
    );
    forward_vector!(state, render);

    fn step(
        &mut self,
        actions: &[V::Act],
        reset_seeds: Option<&[u64]>,
        mut out: StepOut<'_, V::Obs>,
    ) -> Result<()> {
        self.env.step(actions, reset_seeds, out.reborrow())?;
        self.clip(out.rewards);
        Ok(())
    }
}
