//! The wrapper that changes the shape of observations.

use super::{Wrapped, Wrapper};
use crate::{Element, Env, Error, Result, Space};

/// Changes the shape of observations, and keeps the number and order of their elements.
pub type ReshapeObservation<E> = Wrapped<E, Reshape>;

/// The [`Wrapper`] that implements [`ReshapeObservation`].
#[derive(Clone, Debug)]
pub struct Reshape {
    pub(super) shape: Vec<usize>,
}

impl<E: Env> Wrapped<E, Reshape> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless the observation space is a box with as many elements as `shape` has.
    pub fn new(env: E, shape: &[usize]) -> Result<Self> {
        Self::with(env, Reshape { shape: shape.to_vec() })
    }
}

impl<O: Element, A: Element> Wrapper<O, A> for Reshape {
    type Obs = O;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        let Space::Box { low, high, dtype, .. } = inner else {
            return Err(Error::shape("the observation space", inner, "a box"));
        };
        let elements = self.shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        if elements != Some(low.len()) {
            let expected = format_args!("of {} elements, as {inner} has", low.len());
            return Err(Error::shape("`shape`", format_args!("{:?}", self.shape), expected));
        }
        Ok(Space::Box { low: low.clone(), high: high.clone(), shape: self.shape.clone(), dtype: *dtype })
    }
}
