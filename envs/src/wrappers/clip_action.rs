//! The wrapper that clips actions.

use super::{Wrapped, Wrapper};
use crate::{DType, Element, Env, Error, Result, Space};

/// Accepts any continuous action and clips it to the bounds of the inner environment. The wrapper's own action space has no
/// bounds.
pub type ClipAction<E> = Wrapped<E, ClipActions>;

/// The [`Wrapper`] that implements [`ClipAction`].
#[derive(Clone, Debug, Default)]
pub struct ClipActions {
    low: Vec<f64>,
    high: Vec<f64>,
}

impl<E: Env> Wrapped<E, ClipActions> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless the action space is a box of floats with consistent bounds.
    pub fn new(env: E) -> Result<Self> {
        Self::with(env, ClipActions::default())
    }
}

impl<O: Element, A: Element> Wrapper<O, A> for ClipActions {
    type Obs = O;
    type Act = A;

    fn action_space(&mut self, inner: &Space) -> Result<Space> {
        inner.validate()?;
        match inner {
            Space::Box { low, high, shape, dtype: dtype @ (DType::F32 | DType::F64) } => {
                self.low = low.clone();
                self.high = high.clone();
                Ok(Space::real(shape).with_dtype(*dtype))
            }
            other => Err(Error::shape(
                "the action space",
                other,
                "a box of floats, so that actions can be clipped",
            )),
        }
    }

    fn action(&mut self, action: &[A], inner: &mut [A]) -> Result<()> {
        for (i, to) in inner.iter_mut().enumerate() {
            *to = A::from_f64(action[i].to_f64().clamp(self.low[i], self.high[i]));
        }
        Ok(())
    }
}
