//! The wrapper that converts RGB pictures to greyscale.

use super::{Wrapped, Wrapper};
use crate::{DType, Element, Env, Error, Result, Space};

/// Converts RGB pictures to greyscale: 0.2125 red + 0.7154 green + 0.0721 blue, rounded down. Observations are
/// `[height, width]`, or `[height, width, 1]` with `keep_dim`.
pub type GrayscaleObservation<E> = Wrapped<E, Grayscale>;

/// The [`Wrapper`] that implements [`GrayscaleObservation`].
#[derive(Clone, Debug)]
pub struct Grayscale {
    pub(super) keep_dim: bool,
}

impl<E: Env> Wrapped<E, Grayscale> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless the observations of `env` are pictures of bytes, `[height, width, 3]`.
    pub fn new(env: E, keep_dim: bool) -> Result<Self> {
        Self::with(env, Grayscale { keep_dim })
    }
}

impl<O: Element, A: Element> Wrapper<O, A> for Grayscale {
    type Obs = O;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        match inner {
            Space::Box { shape, dtype: DType::U8, .. } if *inner == Space::image(shape) => match shape[..] {
                [height, width, 3] if self.keep_dim => Ok(Space::image(&[height, width, 1])),
                [height, width, 3] => Ok(Space::image(&[height, width])),
                _ => {
                    Err(Error::shape("the observation space", inner, "pictures of bytes, [height, width, 3]"))
                }
            },
            other => {
                Err(Error::shape("the observation space", other, "pictures of bytes, [height, width, 3]"))
            }
        }
    }

    fn observation(&mut self, inner: &[O], obs: &mut [O]) -> Result<()> {
        for (grey, pixel) in obs.iter_mut().zip(inner.chunks_exact(3)) {
            let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(Element::to_f64);
            *grey = O::from_f64((0.2125 * red + 0.7154 * green + 0.0721 * blue).trunc());
        }
        Ok(())
    }
}
