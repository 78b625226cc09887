//! Action types of LunarLander.

use crate::{Element, Space};

/// Action types of [`LunarLander`](super::LunarLander): `i64` (discrete) and `f32` (continuous).
pub trait LunarLanderAction: Element + private::Fire {}

impl LunarLanderAction for i64 {}
impl LunarLanderAction for f32 {}

mod private {
    use super::Space;

    pub trait Fire: Sized + 'static {
        const NOTHING: &'static [Self];

        fn space() -> Space;

        fn is_valid(action: &[Self]) -> bool;

        /// Power of the main engine; 0 if it is off.
        fn main_power(action: &[Self]) -> f64;

        /// Direction (-1 left, 1 right) and power of the side engine; the power is 0 if both are off.
        fn side_power(action: &[Self]) -> (f64, f64);
    }

    impl Fire for i64 {
        const NOTHING: &'static [i64] = &[0];

        fn space() -> Space {
            Space::discrete(4)
        }

        fn is_valid(action: &[i64]) -> bool {
            matches!(action, [0..=3])
        }

        fn main_power(action: &[i64]) -> f64 {
            if action == [2] { 1.0 } else { 0.0 }
        }

        fn side_power(action: &[i64]) -> (f64, f64) {
            match action {
                [1] => (-1.0, 1.0),
                [3] => (1.0, 1.0),
                _ => (0.0, 0.0),
            }
        }
    }

    impl Fire for f32 {
        const NOTHING: &'static [f32] = &[0.0, 0.0];

        fn space() -> Space {
            Space::boxed(-1.0, 1.0, &[2])
        }

        fn is_valid(action: &[f32]) -> bool {
            action.len() == 2 && action.iter().all(|throttle| throttle.is_finite())
        }

        fn main_power(action: &[f32]) -> f64 {
            let throttle = f64::from(action[0].clamp(-1.0, 1.0));
            if throttle > 0.0 { (throttle + 1.0) * 0.5 } else { 0.0 }
        }

        fn side_power(action: &[f32]) -> (f64, f64) {
            let throttle = f64::from(action[1].clamp(-1.0, 1.0));
            if throttle.abs() > 0.5 { (throttle.signum(), throttle.abs()) } else { (0.0, 0.0) }
        }
    }
}
