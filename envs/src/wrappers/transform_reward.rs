//! The wrapper that applies a function to every reward.

use std::fmt;

use crate::{Env, Result, Step, StepOut, VectorEnv};

/// Replaces every reward of an [`Env`] or a [`VectorEnv`] by `func(reward)`.
///
/// ```
/// use pavlov_envs::{Env, native::Pendulum, wrappers::TransformReward};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let mut env = TransformReward::new(Pendulum::new(Default::default()), |reward| reward / 16.0);
/// env.reset(Some(0), &mut [0.0; 3])?;
/// assert!(env.step(&[0.0], &mut [0.0; 3])?.reward >= -1.02);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TransformReward<E, F> {
    env: E,
    func: F,
}

impl<E, F: Fn(f64) -> f64> TransformReward<E, F> {
    /// Wraps `env`.
    pub fn new(env: E, func: F) -> Self {
        Self { env, func }
    }

    /// Returns the inner environment, whose rewards are not transformed.
    pub fn inner(&self) -> &E {
        &self.env
    }

    fn transform(&self, rewards: &mut [f32]) {
        rewards.iter_mut().for_each(|reward| *reward = (self.func)(f64::from(*reward)) as f32);
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env, F: Fn(f64) -> f64 + Send + 'static> Env for TransformReward<E, F> {
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
        Ok(Step { reward: (self.func)(step.reward), ..step })
    }
}

impl<V: VectorEnv, F: Fn(f64) -> f64 + Send> VectorEnv for TransformReward<V, F> {
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
        self.transform(out.rewards);
        Ok(())
    }
}

impl<E: fmt::Debug, F> fmt::Debug for TransformReward<E, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransformReward").field("env", &self.env).finish_non_exhaustive()
    }
}
