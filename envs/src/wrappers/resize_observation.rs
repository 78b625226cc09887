//! The wrapper that makes pictures smaller.

use super::{Wrapped, Wrapper, resize_area::ResizeArea};
use crate::{DType, Element, Env, Error, Result, Space};

/// Makes pictures smaller: each pixel is the mean of the area that it covers, as with OpenCV's `INTER_AREA`. Pictures
/// cannot be made larger.
pub type ResizeObservation<E> = Wrapped<E, Resize>;

/// The [`Wrapper`] that implements [`ResizeObservation`].
#[derive(Clone, Debug)]
pub struct Resize {
    shape: [usize; 2],
    resize: Option<ResizeArea>,
}

impl<E: Env> Wrapped<E, Resize> {
    /// Wraps `env`; `shape` is the new height and width in pixels.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless the observations of `env` are pictures of bytes, `[height, width]` or
    /// `[height, width, channels]`, or if a side of `shape` is 0 or larger than that of the pictures.
    pub fn new(env: E, shape: [usize; 2]) -> Result<Self> {
        Self::with(env, Resize::new(shape))
    }
}

impl Resize {
    pub(super) fn new(shape: [usize; 2]) -> Self {
        Self { shape, resize: None }
    }
}

impl<O: Element, A: Element> Wrapper<O, A> for Resize {
    type Obs = O;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        let no_picture = || {
            let expected = "pictures of bytes, [height, width] or [height, width, channels]";
            Error::shape("the observation space", inner, expected)
        };
        let Space::Box { shape, dtype: DType::U8, .. } = inner else { return Err(no_picture()) };
        let ([height, width] | [height, width, _]) = shape[..] else { return Err(no_picture()) };
        let [to_height, to_width] = self.shape;
        if *inner != Space::image(shape) {
            return Err(no_picture());
        }
        if to_height == 0 || to_width == 0 || to_height > height || to_width > width {
            let expected =
                format_args!("at least 1 x 1 and at most {height} x {width}, the size of the pictures");
            return Err(Error::shape("`shape`", format_args!("{to_height} x {to_width}"), expected));
        }
        let channels = shape.get(2).copied();
        self.resize = Some(ResizeArea::new([height, width], self.shape, channels.unwrap_or(1)));
        Ok(Space::image(&[to_height, to_width].into_iter().chain(channels).collect::<Vec<_>>()))
    }

    fn observation(&mut self, inner: &[O], obs: &mut [O]) -> Result<()> {
        if let Some(resize) = &mut self.resize {
            let obs: &mut [u8] = bytemuck::cast_slice_mut(obs);
            resize.resize(bytemuck::cast_slice(inner), |i, byte| obs[i] = byte);
        }
        Ok(())
    }
}
