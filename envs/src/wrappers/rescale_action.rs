//! Actions between other bounds.

use crate::{Element, Env, Error, Result, Space, Step};

/// Takes actions in `min_action..=max_action` and stretches them to the bounds of the inner environment.
#[derive(Clone, Debug)]
pub struct RescaleAction<E: Env> {
    env: E,
    /// The slope from the inner bounds to the outer ones: `outer = gradient * inner + intercept`.
    gradient: Vec<f64>,
    intercept: Vec<f64>,
    action: Vec<E::Act>,
    action_space: Space,
}

impl<E: Env> RescaleAction<E> {
    /// Wraps `env`; all elements of an action get the same bounds.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless both are finite with `min_action < max_action`, and the action space is a box of
    /// floats with finite bounds that are not equal.
    pub fn new(env: E, min_action: f64, max_action: f64) -> Result<Self> {
        if !(min_action < max_action && (max_action - min_action).is_finite()) {
            let expected = format_args!("finite and below {max_action} (`max_action`)");
            return Err(Error::shape("`min_action`", min_action, expected));
        }
        let (low, high, shape, dtype) = match env.action_space() {
            Space::Box { low, high, shape, dtype }
                if dtype.is_float()
                    && low.iter().zip(&high).all(|(low, high)| low < high && (high - low).is_finite()) =>
            {
                (low, high, shape, dtype)
            }
            other => {
                let expected = "a box of floats with finite bounds, each `low` below its `high`";
                return Err(Error::shape("the action space", other, expected));
            }
        };
        // Gymnasium rounds to the type of the actions after every operation.
        let edges = low.iter().zip(&high).map(|(low, high)| (round::<E::Act>(*low), round::<E::Act>(*high)));
        let (gradient, intercept): (Vec<f64>, Vec<f64>) = edges
            .map(|(low, high)| {
                let gradient = round::<E::Act>((max_action - min_action) / (high - low));
                (gradient, round::<E::Act>(round::<E::Act>(gradient * -low) + min_action))
            })
            .unzip();
        Ok(Self {
            gradient,
            intercept,
            action: vec![E::Act::default(); low.len()],
            action_space: Space::boxed(min_action, max_action, &shape).with_dtype(dtype),
            env,
        })
    }

    /// The environment with its own bounds.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

fn round<T: Element>(x: f64) -> f64 {
    T::from_f64(x).to_f64()
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for RescaleAction<E> {
    forward!(Obs, Act, observation_space, reset, max_episode_steps, action_mask, set_task, info, render);
    forward!(save_state, load_state);

    fn action_space(&self) -> Space {
        self.action_space.clone()
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        for (i, to) in self.action.iter_mut().enumerate() {
            *to =
                E::Act::from_f64(round::<E::Act>(action[i].to_f64() - self.intercept[i]) / self.gradient[i]);
        }
        self.env.step(&self.action, obs)
    }
}
