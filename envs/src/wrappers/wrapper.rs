//! What the author of a wrapper writes.

use crate::{Element, Error, Result, Space};

/// A wrapper: what lies between an agent and one copy of an environment. Every method passes on what it gets, so an author
/// writes only what changes.
///
/// `O` and `A` are the scalar types of the environment inside. A wrapper that is written for all of them stands around any
/// environment. [`Wrapped`](crate::Wrapped) puts it around an [`Env`](crate::Env),
/// [`WrappedVector`](crate::WrappedVector) around all copies of a [`VectorEnv`](crate::VectorEnv) at once, and
/// [`register_wrapper`](crate::register_wrapper) gives it a name for settings.
///
/// ```
/// use pavlov_envs::{CartPole, Element, Env, Result, Space, Wrapped, Wrapper};
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

    /// The set of observations that the agent sees. It is asked for once, before everything else, so a wrapper can keep what
    /// it needs to know of the environment's own space.
    ///
    /// # Errors
    /// Returns [`Error::Shape`](crate::Error::Shape) if the wrapper cannot stand around such an environment.
    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        Ok(inner.clone())
    }

    /// The set of actions that the agent takes, asked for once like [`observation_space`](Self::observation_space).
    ///
    /// # Errors
    /// Returns [`Error::Shape`](crate::Error::Shape) if the wrapper cannot stand around such an environment.
    fn action_space(&mut self, inner: &Space) -> Result<Space> {
        Ok(inner.clone())
    }

    /// Hears that an episode begins. Its first observation comes next, by [`observation`](Self::observation). Whatever the
    /// wrapper draws in the episode it draws from a stream with this seed; `None` continues the stream.
    fn reset(&mut self, seed: Option<u64>) {
        let _ = seed;
    }

    /// Writes what the agent sees of the environment's observation. Without a method of the wrapper's own they are equal,
    /// converted where the scalar types differ.
    ///
    /// # Errors
    /// Returns whatever the wrapper reports; see [`Error::other`](crate::Error::other).
    fn observation(&mut self, inner: &[O], obs: &mut [Self::Obs]) -> Result<()> {
        convert("the observation", inner, obs)
    }

    /// Writes the action of the environment for that of the agent, before the step. Without a method of the wrapper's own
    /// they are equal, converted where the scalar types differ.
    ///
    /// # Errors
    /// Returns whatever the wrapper reports; see [`Error::other`](crate::Error::other).
    fn action(&mut self, action: &[Self::Act], inner: &mut [A]) -> Result<()> {
        convert("the action", action, inner)
    }

    /// The reward that the agent gets for the environment's, after the step's [`observation`](Self::observation).
    fn reward(&mut self, reward: f64) -> f64 {
        reward
    }

    /// What the wrapper keeps from one step to the next. It is empty for a wrapper without memory.
    fn save_state(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Continues from what [`save_state`](Self::save_state) gave.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::Error::State) if `state` is damaged or another wrapper's.
    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        match state.len() {
            0 => Ok(()),
            bytes => {
                Err(Error::state(format!("{bytes} bytes given, but this wrapper implements no `load_state`")))
            }
        }
    }
}

fn convert<T: Element, U: Element>(what: &'static str, from: &[T], to: &mut [U]) -> Result<()> {
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

/// A [`Wrapper`] that is written for all scalar types: it can stand around whatever has an id. Implemented for every such
/// wrapper, and to be implemented for nothing else.
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
