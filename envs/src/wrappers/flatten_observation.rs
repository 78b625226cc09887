//! The wrapper that flattens observations to one row of numbers.

use super::{Wrapped, Wrapper};
use crate::{Element, Env, Error, Result, Space};

/// Flattens observations to the row that a model reads: `f32`, integers one-hot, parts one after the other
/// ([`Space::flatten_into`]).
///
/// Gymnasium's wrapper of this name gives the same numbers in the narrowest common type, for instance `int64` for a discrete
/// space.
pub type FlattenObservation<E> = Wrapped<E, FlattenObservations>;

/// The [`Wrapper`] that implements [`FlattenObservation`].
#[derive(Clone, Debug, Default)]
pub struct FlattenObservations {
    space: Option<Space>,
}

impl<E: Env> Wrapped<E, FlattenObservations> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a space of `env` is not valid, has no scalars, or does not match its scalar type.
    pub fn new(env: E) -> Result<Self> {
        Self::with(env, FlattenObservations::default())
    }
}

impl<O: Element, A: Element> Wrapper<O, A> for FlattenObservations {
    type Obs = f32;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        self.space = Some(inner.clone());
        Ok(inner.flattened())
    }

    fn observation(&mut self, inner: &[O], obs: &mut [f32]) -> Result<()> {
        let unknown = || Error::shape("the observation space", "unknown", "asked for first");
        self.space.as_ref().ok_or_else(unknown)?.flatten_into(bytemuck::cast_slice(inner), obs)
    }
}
