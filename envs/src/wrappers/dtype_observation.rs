//! The wrapper that converts observations to another scalar type.

use std::marker::PhantomData;

use super::{Wrapped, Wrapper};
use crate::{Element, Env, Error, Result, Space};

/// Converts observations to scalars of type `T`. A discrete or multi-binary space becomes a box.
pub type DtypeObservation<E, T> = Wrapped<E, Cast<T>>;

/// The [`Wrapper`] that implements [`DtypeObservation`].
#[derive(Clone, Debug)]
pub struct Cast<T> {
    to: PhantomData<fn() -> T>,
}

impl<T> Default for Cast<T> {
    fn default() -> Self {
        Self { to: PhantomData }
    }
}

impl<E: Env, T: Element> Wrapped<E, Cast<T>> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless the observation space is a box, discrete or multi-binary.
    pub fn new(env: E) -> Result<Self> {
        Self::with(env, Cast::default())
    }
}

impl<O: Element, A: Element, T: Element> Wrapper<O, A> for Cast<T> {
    type Obs = T;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        let boxed =
            |low: f64, high: f64, shape: &[usize]| Space::boxed(low, high, shape).with_dtype(T::DTYPE);
        match inner {
            Space::Box { .. } => Ok(inner.clone().with_dtype(T::DTYPE)),
            Space::Discrete { n, start } => Ok(boxed(*start as f64, (start + n - 1) as f64, &[])),
            Space::MultiBinary { shape } => Ok(boxed(0.0, 1.0, shape)),
            other => Err(Error::shape("the observation space", other, "a box, discrete or multi-binary")),
        }
    }
}
