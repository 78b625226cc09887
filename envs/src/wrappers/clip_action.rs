//! Actions of any size.

use crate::{Element, Env, Error, Result, Space, Step};

/// Takes any continuous action and clips it to the bounds of the inner environment; its own action space has none.
#[derive(Clone, Debug)]
pub struct ClipAction<E: Env> {
    env: E,
    low: Vec<f64>,
    high: Vec<f64>,
    action: Vec<E::Act>,
    action_space: Space,
}

impl<E: Env> ClipAction<E> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless the action space is a box of floats whose bounds fit each other.
    pub fn new(env: E) -> Result<Self> {
        let space = env.action_space();
        space.validate()?;
        match space {
            Space::Box { low, high, shape, dtype } if dtype.is_float() => Ok(Self {
                action: vec![E::Act::default(); low.len()],
                action_space: Space::real(&shape).with_dtype(dtype),
                env,
                low,
                high,
            }),
            other => Err(Error::shape(
                "the action space",
                other,
                "a box of floats, so that actions can be clipped",
            )),
        }
    }

    /// The environment with its own bounds.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for ClipAction<E> {
    forward!(Obs, Act, observation_space, reset, max_episode_steps, action_mask, set_task, info, render);
    forward!(save_state, load_state);

    fn action_space(&self) -> Space {
        self.action_space.clone()
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        for (i, to) in self.action.iter_mut().enumerate() {
            *to = E::Act::from_f64(action[i].to_f64().clamp(self.low[i], self.high[i]));
        }
        self.env.step(&self.action, obs)
    }
}
