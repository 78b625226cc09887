//! The trait that the author of a wrapper implements.

use crate::{Element, Error, Result, Space};

/// A wrapper, which changes the rewards, observations or actions of one copy of an environment. Every method has a default
/// that changes nothing, so an author writes only the methods that do.
///
/// `O` and `A` are the scalar types of the inner environment. A wrapper that is implemented for all of them fits any
/// environment. [`Wrapped`](crate::Wrapped) puts it around an [`Env`](crate::Env),
/// [`WrappedVector`](crate::WrappedVector) around all copies of a [`VectorEnv`](crate::VectorEnv) at once, and
/// [`register_wrapper`](crate::register_wrapper) gives it a name for settings.
///
/// ```
/// use pavlov_envs::{Element, Env, Result, Space, Wrapped, Wrapper, native::CartPole};
///
/// /// Pays a tenth.
/// struct Tenth;
///
/// impl<O: Element, A: Element> Wrapper<O, A> for Tenth {
///     type Obs = O;
///     type Act = A;
///
///     fn reward(&mut self, reward: f64) -> f64 {
///         reward / 10.0
///     }
/// }
///
/// /// Shows the position and the angle, and hides the velocities.
/// struct NoVelocity;
///
/// impl<A: Element> Wrapper<f32, A> for NoVelocity {
///     type Obs = f32;
///     type Act = A;
///
///     fn observation_space(&mut self, _inner: &Space) -> Result<Space> {
///         Ok(Space::boxed(-10.0, 10.0, &[2]))
///     }
///
///     fn observation(&mut self, inner: &[f32], obs: &mut [f32]) -> Result<()> {
///         obs.copy_from_slice(&[inner[0], inner[2]]);
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let mut env = Wrapped::with(Wrapped::with(CartPole::new(Default::default()), Tenth)?, NoVelocity)?;
/// let mut obs = [0.0; 2];
/// env.reset(Some(42), &mut obs)?;
/// assert_eq!(obs, [0.027395604, 0.035859793]);
/// assert_eq!(env.step(&[1], &mut obs)?.reward, 0.1);
/// # Ok(())
/// # }
/// ```
pub trait Wrapper<O: Element, A: Element>: Send + 'static {
    /// Scalar type of the observations that the agent sees.
    type Obs: Element;
    /// Scalar type of the actions that the agent takes.
    type Act: Element;

    /// Returns the space of the observations that the agent sees, given that of the inner environment. This method is called
    /// once, before all others, so a wrapper can store properties of the inner space here.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the wrapper does not fit such an environment.
    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        Ok(inner.clone())
    }

    /// Returns the space of the actions that the agent takes, given that of the inner environment. This method is called
    /// once, after [`observation_space`](Self::observation_space).
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the wrapper does not fit such an environment.
    fn action_space(&mut self, inner: &Space) -> Result<Space> {
        Ok(inner.clone())
    }

    /// Prepares the wrapper for a new episode, before the first call of [`observation`](Self::observation). A wrapper that
    /// draws random numbers seeds its stream with `seed`; with `None` the stream continues.
    fn reset(&mut self, seed: Option<u64>) {
        let _ = seed;
    }

    /// Writes the observation that the agent sees to `obs`, given the inner environment's. The default copies it, and
    /// converts it if the scalar types differ.
    ///
    /// # Errors
    /// Returns whatever the wrapper reports; see [`Error::other`](crate::Error::other).
    fn observation(&mut self, inner: &[O], obs: &mut [Self::Obs]) -> Result<()> {
        convert("the observation", inner, obs)
    }

    /// Writes the action for the inner environment to `inner`, given the agent's, before the step. The default copies it,
    /// and converts it if the scalar types differ.
    ///
    /// # Errors
    /// Returns whatever the wrapper reports; see [`Error::other`](crate::Error::other).
    fn action(&mut self, action: &[Self::Act], inner: &mut [A]) -> Result<()> {
        convert("the action", action, inner)
    }

    /// Returns the reward that the agent gets, given the inner environment's. It is called after
    /// [`observation`](Self::observation) in each step.
    fn reward(&mut self, reward: f64) -> f64 {
        reward
    }

    /// Returns the state that the wrapper keeps from one step to the next; empty by default, for a wrapper without state.
    fn save_state(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Restores a state made by [`save_state`](Self::save_state).
    ///
    /// # Errors
    /// Returns [`Error::State`] if `state` is damaged or another wrapper's.
    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        match state.len() {
            0 => Ok(()),
            bytes => {
                Err(Error::state(format!("{bytes} bytes given, but this wrapper implements no `load_state`")))
            }
        }
    }
}

pub(super) fn convert<T: Element, U: Element>(what: &'static str, from: &[T], to: &mut [U]) -> Result<()> {
    if from.len() != to.len() {
        let expected =
            format_args!("{} wide; a wrapper that changes the width writes the row itself", to.len());
        return Err(Error::shape(what, format_args!("{} wide", from.len()), expected));
    }
    if T::DTYPE == U::DTYPE {
        bytemuck::cast_slice_mut::<U, T>(to).copy_from_slice(from);
    } else {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = U::from_f64(from.to_f64()));
    }
    Ok(())
}

/// A [`Wrapper`] that is implemented for all scalar types of registered environments: `u8`, `i64`, `f32` or `f64`
/// observations, `i64` or `f32` actions. Every such wrapper implements this trait; do not implement it yourself.
pub trait AnyWrapper:
    Wrapper<u8, i64>
    + Wrapper<i64, i64>
    + Wrapper<f32, i64>
    + Wrapper<f64, i64>
    + Wrapper<u8, f32>
    + Wrapper<i64, f32>
    + Wrapper<f32, f32>
    + Wrapper<f64, f32>
{
}

impl<W> AnyWrapper for W where
    W: Wrapper<u8, i64>
        + Wrapper<i64, i64>
        + Wrapper<f32, i64>
        + Wrapper<f64, i64>
        + Wrapper<u8, f32>
        + Wrapper<i64, f32>
        + Wrapper<f32, f32>
        + Wrapper<f64, f32>
{
}
