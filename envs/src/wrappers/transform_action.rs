//! The wrapper that applies a function to every action.

use std::fmt;

use super::{Wrapped, Wrapper};
use crate::{Element, Env, Result, Space};

/// Accepts actions of another space; `func` converts each to an action of the inner environment.
///
/// ```
/// use pavlov_envs::{Env, Space, native::Pendulum, wrappers::TransformAction};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// // A share of the greatest torque.
/// let share = |action: &[f32], torque: &mut [f32]| torque[0] = 2.0 * action[0];
/// let mut env = TransformAction::new(Pendulum::new(Default::default()), Space::boxed(-1.0, 1.0, &[1]), share)?;
/// env.reset(Some(0), &mut [0.0; 3])?;
/// env.step(&[0.5], &mut [0.0; 3])?;
/// # Ok(())
/// # }
/// ```
pub type TransformAction<E, F> = Wrapped<E, Transform<F>>;

/// The [`Wrapper`] that implements [`TransformAction`].
#[derive(Clone)]
pub struct Transform<F> {
    action_space: Space,
    func: F,
}

impl<E: Env, F: Fn(&[E::Act], &mut [E::Act]) + Send + 'static> Wrapped<E, Transform<F>> {
    /// Wraps `env`. `func` reads an action of `action_space` and writes every element of an action of `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`](crate::Error::Shape) if the space is not valid, has no scalars, or does not have the scalar
    /// type of actions.
    pub fn new(env: E, action_space: Space, func: F) -> Result<Self> {
        Self::with(env, Transform { action_space, func })
    }
}

impl<O: Element, A: Element, F: Fn(&[A], &mut [A]) + Send + 'static> Wrapper<O, A> for Transform<F> {
    type Obs = O;
    type Act = A;

    fn action_space(&mut self, _inner: &Space) -> Result<Space> {
        Ok(self.action_space.clone())
    }

    fn action(&mut self, action: &[A], inner: &mut [A]) -> Result<()> {
        (self.func)(action, inner);
        Ok(())
    }
}

impl<F> fmt::Debug for Transform<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform").field("action_space", &self.action_space).finish_non_exhaustive()
    }
}
