//! The wrapper that rescales actions from other bounds.

use super::{Wrapped, Wrapper};
use crate::{Element, Env, Error, Result, Space};

/// Accepts actions in `min_action..=max_action` and rescales them linearly to the bounds of the inner environment.
pub type RescaleAction<E> = Wrapped<E, RescaleActions>;

/// The [`Wrapper`] that implements [`RescaleAction`].
#[derive(Clone, Debug)]
pub struct RescaleActions {
    min_action: f64,
    max_action: f64,
    /// Slope of each element from the inner bounds to the outer ones: `outer = gradient * inner + intercept`.
    gradient: Vec<f64>,
    intercept: Vec<f64>,
}

impl<E: Env> Wrapped<E, RescaleActions> {
    /// Wraps `env`; all elements of an action get the same bounds.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless both bounds are finite with `min_action < max_action`, and the action space is a box
    /// of floats with finite bounds, each `low` below its `high`.
    pub fn new(env: E, min_action: f64, max_action: f64) -> Result<Self> {
        Self::with(env, RescaleActions::new(min_action, max_action)?)
    }
}

impl RescaleActions {
    pub(super) fn new(min_action: f64, max_action: f64) -> Result<Self> {
        if !(min_action < max_action && (max_action - min_action).is_finite()) {
            let expected = format_args!("finite and below {max_action} (`max_action`)");
            return Err(Error::shape("`min_action`", min_action, expected));
        }
        Ok(Self { min_action, max_action, gradient: Vec::new(), intercept: Vec::new() })
    }
}

fn round<T: Element>(x: f64) -> f64 {
    T::from_f64(x).to_f64()
}

impl<O: Element, A: Element> Wrapper<O, A> for RescaleActions {
    type Obs = O;
    type Act = A;

    fn action_space(&mut self, inner: &Space) -> Result<Space> {
        let Self { min_action, max_action, .. } = *self;
        let (low, high, shape, dtype) = match inner {
            Space::Box { low, high, shape, dtype }
                if dtype.is_float()
                    && low.iter().zip(high).all(|(low, high)| low < high && (high - low).is_finite()) =>
            {
                (low, high, shape, *dtype)
            }
            other => {
                let expected = "a box of floats with finite bounds, each `low` below its `high`";
                return Err(Error::shape("the action space", other, expected));
            }
        };
        // Gymnasium rounds to the type of the actions after every operation.
        let edges = low.iter().zip(high).map(|(low, high)| (round::<A>(*low), round::<A>(*high)));
        (self.gradient, self.intercept) = edges
            .map(|(low, high)| {
                let gradient = round::<A>((max_action - min_action) / (high - low));
                (gradient, round::<A>(round::<A>(gradient * -low) + min_action))
            })
            .unzip();
        Ok(Space::boxed(min_action, max_action, shape).with_dtype(dtype))
    }

    fn action(&mut self, action: &[A], inner: &mut [A]) -> Result<()> {
        for (i, to) in inner.iter_mut().enumerate() {
            *to = A::from_f64(round::<A>(action[i].to_f64() - self.intercept[i]) / self.gradient[i]);
        }
        Ok(())
    }
}
