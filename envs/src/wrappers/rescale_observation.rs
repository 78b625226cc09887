//! The wrapper that rescales observations to other bounds.

use super::{Wrapped, Wrapper};
use crate::{Element, Env, Error, Result, Space};

/// Rescales observations linearly from the bounds of the inner environment to `min_obs..=max_obs`.
pub type RescaleObservation<E> = Wrapped<E, Rescale>;

/// The [`Wrapper`] that implements [`RescaleObservation`].
#[derive(Clone, Debug)]
pub struct Rescale {
    min_obs: f64,
    max_obs: f64,
    /// Slope of each element from the inner bounds to the outer ones: `outer = gradient * inner + intercept`.
    gradient: Vec<f64>,
    intercept: Vec<f64>,
}

impl<E: Env> Wrapped<E, Rescale> {
    /// Wraps `env`; all elements of an observation get the same bounds.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless both bounds are finite with `min_obs < max_obs`, and the observation space is a box
    /// of floats with finite bounds, each `low` below its `high`.
    pub fn new(env: E, min_obs: f64, max_obs: f64) -> Result<Self> {
        Self::with(env, Rescale::new(min_obs, max_obs)?)
    }
}

impl Rescale {
    pub(super) fn new(min_obs: f64, max_obs: f64) -> Result<Self> {
        if !(min_obs < max_obs && (max_obs - min_obs).is_finite()) {
            let expected = format_args!("finite and below {max_obs} (`max_obs`)");
            return Err(Error::shape("`min_obs`", min_obs, expected));
        }
        Ok(Self { min_obs, max_obs, gradient: Vec::new(), intercept: Vec::new() })
    }
}

fn round<T: Element>(x: f64) -> f64 {
    T::from_f64(x).to_f64()
}

impl<O: Element, A: Element> Wrapper<O, A> for Rescale {
    type Obs = O;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        let (low, high, shape, dtype) = match inner {
            Space::Box { low, high, shape, dtype }
                if dtype.is_float()
                    && low.iter().zip(high).all(|(low, high)| low < high && (high - low).is_finite()) =>
            {
                (low, high, shape, *dtype)
            }
            other => {
                let expected = "a box of floats with finite bounds, each `low` below its `high`";
                return Err(Error::shape("the observation space", other, expected));
            }
        };
        // Gymnasium rounds to the type of the observations after every operation.
        let edges = low.iter().zip(high).map(|(low, high)| (round::<O>(*low), round::<O>(*high)));
        (self.gradient, self.intercept) = edges
            .map(|(low, high)| {
                let gradient = round::<O>((self.max_obs - self.min_obs) / (high - low));
                (gradient, round::<O>(round::<O>(gradient * -low) + self.min_obs))
            })
            .unzip();
        Ok(Space::boxed(self.min_obs, self.max_obs, shape).with_dtype(dtype))
    }

    fn observation(&mut self, inner: &[O], obs: &mut [O]) -> Result<()> {
        for (i, to) in obs.iter_mut().enumerate() {
            *to = O::from_f64(round::<O>(self.gradient[i] * inner[i].to_f64()) + self.intercept[i]);
        }
        Ok(())
    }
}
