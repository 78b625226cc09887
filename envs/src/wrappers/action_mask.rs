//! The wrapper that adds the action mask to the observation.

use crate::{Element, Env, Error, Result, Space, Step};

/// Observes a dict `{"action_mask", "observation"}`, as PettingZoo's turn-based games do: the mask of [`Env::action_mask`],
/// one bit per action, and the inner environment's observation. Without a mask all bits are 1.
#[derive(Clone, Debug)]
pub struct ActionMask<E> {
    env: E,
    mask: Vec<bool>,
}

impl<E: Env> ActionMask<E> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless the action space is discrete or multi-discrete.
    pub fn new(env: E) -> Result<Self> {
        match env.action_space() {
            space @ (Space::Discrete { .. } | Space::MultiDiscrete { .. }) => {
                Ok(Self { env, mask: vec![true; space.flat_width()] })
            }
            other => {
                Err(Error::shape("the action space", other, "discrete or multi-discrete, to have a mask"))
            }
        }
    }

    /// Returns the inner environment, which does not observe its mask.
    pub fn inner(&self) -> &E {
        &self.env
    }

    fn show(&mut self, out: &mut [E::Obs]) {
        if !self.env.action_mask(&mut self.mask) {
            self.mask.fill(true);
        }
        for (out, &legal) in out.iter_mut().zip(&self.mask) {
            *out = E::Obs::from_f64(f64::from(u8::from(legal)));
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for ActionMask<E> {
    forward!(Obs, Act, action_space, max_episode_steps, action_mask, set_task, no_goals, info, render, state);

    fn observation_space(&self) -> Space {
        Space::dict([
            ("action_mask", Space::multi_binary(&[self.mask.len()])),
            ("observation", self.env.observation_space()),
        ])
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> Result<()> {
        let (mask, inner) = obs.split_at_mut(self.mask.len());
        self.env.reset(seed, inner)?;
        self.show(mask);
        Ok(())
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        let (mask, inner) = obs.split_at_mut(self.mask.len());
        let step = self.env.step(action, inner)?;
        self.show(mask);
        Ok(step)
    }
}
