//! The wrapper that applies a function to every observation.

use std::fmt;

use crate::{Element, Env, Result, Space, Step, running::sync_vector::check_space};

/// Replaces every observation by the one that `func` writes, which has its own space and scalar type.
///
/// ```
/// use pavlov_envs::{Env, Space, native::Pendulum, wrappers::TransformObservation};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// // The angle instead of its cosine and sine.
/// let angle = |obs: &[f32], out: &mut [f32]| out.copy_from_slice(&[obs[1].atan2(obs[0]), obs[2]]);
/// let space = Space::bounded(&[-3.2, -8.0], &[3.2, 8.0])?;
/// let mut env = TransformObservation::new(Pendulum::new(Default::default()), space, angle)?;
/// env.reset(Some(0), &mut [0.0; 2])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TransformObservation<E: Env, O, F> {
    env: E,
    observation_space: Space,
    func: F,
    row: Vec<E::Obs>,
    of: std::marker::PhantomData<O>,
}

impl<E: Env, O: Element, F: Fn(&[E::Obs], &mut [O])> TransformObservation<E, O, F> {
    /// Wraps `env`. `func` reads a row of the environment and writes every element of a row of `observation_space`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`](crate::Error::Shape) if the space is not valid, has no scalars, or does not have the scalar
    /// type `O`.
    pub fn new(env: E, observation_space: Space, func: F) -> Result<Self> {
        check_space::<O>("`observation_space`", &observation_space)?;
        let row = vec![E::Obs::default(); env.observation_space().width()];
        Ok(Self { env, observation_space, func, row, of: std::marker::PhantomData })
    }

    /// Returns the inner environment, whose observations are not transformed.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env, O: Element, F: Fn(&[E::Obs], &mut [O]) + Send + 'static> Env for TransformObservation<E, O, F> {
    type Obs = O;

    forward!(Act, action_space, max_episode_steps, action_mask, set_task, no_goals, info, render, state);

    fn observation_space(&self) -> Space {
        self.observation_space.clone()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> Result<()> {
        self.env.reset(seed, &mut self.row)?;
        (self.func)(&self.row, obs);
        Ok(())
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [O]) -> Result<Step> {
        let step = self.env.step(action, &mut self.row)?;
        (self.func)(&self.row, obs);
        Ok(step)
    }
}

impl<E: Env + fmt::Debug, O, F> fmt::Debug for TransformObservation<E, O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransformObservation")
            .field("env", &self.env)
            .field("observation_space", &self.observation_space)
            .finish_non_exhaustive()
    }
}
