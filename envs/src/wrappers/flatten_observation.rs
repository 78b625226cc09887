//! Observations as one row of numbers.

use crate::{Env, Result, Space, Step};

/// Writes observations as a model reads them: `f32`, integers one-hot, parts one after the other
/// ([`Space::flatten_into`]).
///
/// Gymnasium's gives the same numbers in the narrowest common type, for instance `int64` for a discrete space.
#[derive(Clone, Debug)]
pub struct FlattenObservation<E: Env> {
    env: E,
    space: Space,
    row: Vec<E::Obs>,
}

impl<E: Env> FlattenObservation<E> {
    /// Wraps `env`.
    pub fn new(env: E) -> Self {
        let space = env.observation_space();
        Self { row: vec![E::Obs::default(); space.width()], space, env }
    }

    /// The environment with its own observations.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for FlattenObservation<E> {
    type Obs = f32;

    forward!(
        Act,
        action_space,
        max_episode_steps,
        action_mask,
        set_task,
        info,
        render,
        save_state,
        load_state
    );

    fn observation_space(&self) -> Space {
        self.space.flattened()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        self.env.reset(seed, &mut self.row)?;
        self.space.flatten_into(bytemuck::cast_slice(&self.row), obs)
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [f32]) -> Result<Step> {
        let step = self.env.step(action, &mut self.row)?;
        self.space.flatten_into(bytemuck::cast_slice(&self.row), obs)?;
        Ok(step)
    }
}
