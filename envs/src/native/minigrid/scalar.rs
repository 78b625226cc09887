//! Scalar types of MiniGrid observations.

use crate::Element;

/// Scalar types of [`MiniGrid`](super::MiniGrid) observations: `i64` for the dict, `u8` for the image alone.
pub trait MiniGridObs: Element + private::Scalar {}

impl MiniGridObs for i64 {}
impl MiniGridObs for u8 {}

mod private {
    pub trait Scalar {
        /// Whether the observation is the image alone, as with `ImgObsWrapper`.
        const IMAGE_ONLY: bool;

        fn of(value: i64) -> Self;
    }

    impl Scalar for i64 {
        const IMAGE_ONLY: bool = false;

        #[inline(always)]
        fn of(value: i64) -> Self {
            value
        }
    }

    impl Scalar for u8 {
        const IMAGE_ONLY: bool = true;

        #[inline(always)]
        fn of(value: i64) -> Self {
            value as u8
        }
    }
}
