//! A macro that makes environments of the crate gymnasium-rs environments of pavlov. gymnasium-rs is no dependency of this
//! crate.
//!
//! gymnasium-rs 0.1.1 depends on pyo3 0.19, and Cargo allows only one pyo3 in a program's dependencies. The macro expands in
//! the user's program, which knows both crates and chooses their versions. Forks of gymnasium-rs work too.

#[doc(hidden)]
pub use pavlov_envs;

use pavlov_envs::{DType, Element, Error, Frame, Result, Space};

/// Wraps an environment of the crate gymnasium-rs as an [`Env`](pavlov_envs::Env).
///
/// ```text
/// gymnasium_rs_env! {
///     pub struct NAME(THEIR_ENV) of PATH_OF_THEIR_CRATE, obs: SPACE(TYPE), action: SPACE(TYPE)
/// }
/// ```
///
/// The types are those of `gymnasium_rs::core::Env<Obs, Action>`. `Box(TYPE)` is a collection of floats
/// (`ndarray::Array1<f32>`, `Vec<f64>`) whose rows here are `f32`; `Discrete(TYPE)` is an integer, here an `i64`.
/// `NAME::new(their_env)` wraps an environment; `NAME` is `Send` if `THEIR_ENV` is.
///
/// * Seeds of gymnasium-rs have 31 bits: a seed below 2^31 is passed on unchanged; the upper bits of a larger one are folded
///   into the lower ones.
/// * A step that is both terminated and truncated keeps both flags, as in Gymnasium.
/// * [`Env::info`](pavlov_envs::Env::info) returns the numbers in the `info` of gymnasium-rs.
/// * Episodes have no limit on steps; [`TimeLimit`](pavlov_envs::wrappers::TimeLimit) adds one.
/// * Dropping the wrapper calls `close` of the wrapped environment.
///
/// The `CartPole` of gymnasium-rs is not Gymnasium's: its physics and rewards differ. Use [`CartPole`](pavlov_envs::native::CartPole)
/// instead.
///
/// ```
/// # // What the macro uses of gymnasium-rs, so that this page needs no pyo3.
/// # mod gymnasium_rs { pub mod core {
/// #     use std::collections::HashMap;
/// #     pub type Info = HashMap<String, serde_json::Value>;
/// #     pub type Options = Info;
/// #     pub enum Space { Discrete(i32), Box { low: Vec<f32>, high: Vec<f32> } }
/// #     pub struct Image;
/// #     impl Image {
/// #         pub fn dim(&self) -> (usize, usize, usize) { (0, 0, 3) }
/// #         pub fn iter(&self) -> std::slice::Iter<'_, u8> { [].iter() }
/// #     }
/// #     pub trait Env<Obs, Action> {
/// #         fn observation_space(&self) -> Space;
/// #         fn action_space(&self) -> Space;
/// #         fn reset(&mut self, seed: Option<i32>, options: Options) -> (Obs, Info);
/// #         fn step(&mut self, action: Action) -> (Obs, f32, bool, bool, Info);
/// #         fn render(&self) -> Option<Image>;
/// #         fn close(&mut self);
/// #     }
/// # } }
/// use gymnasium_rs::core::{self, Info, Options};
/// use pavlov_envs::{Env, Result, check_env, wrappers::TimeLimit};
/// use pavlov_gymnasium_rs_macro::gymnasium_rs_env;
///
/// struct Corridor(i32);
///
/// impl core::Env<Vec<f32>, i32> for Corridor {
///     fn observation_space(&self) -> core::Space {
///         core::Space::Box { low: vec![0.0], high: vec![5.0] }
///     }
///     fn action_space(&self) -> core::Space {
///         core::Space::Discrete(2)
///     }
///     fn reset(&mut self, _seed: Option<i32>, _options: Options) -> (Vec<f32>, Info) {
///         self.0 = 0;
///         (vec![0.0], Info::new())
///     }
///     fn step(&mut self, action: i32) -> (Vec<f32>, f32, bool, bool, Info) {
///         self.0 = (self.0 + 2 * action - 1).max(0);
///         (vec![self.0 as f32], -1.0, self.0 == 5, false, Info::new())
///     }
///     # fn render(&self) -> Option<core::Image> { None }
///     # fn close(&mut self) {}
///     // and `render` and `close`
/// }
///
/// gymnasium_rs_env! {
///     /// The corridor, as pavlov sees it.
///     pub struct PavlovCorridor(Corridor) of gymnasium_rs, obs: Box(Vec<f32>), action: Discrete(i32)
/// }
///
/// # fn main() -> Result<()> {
/// check_env(&mut TimeLimit::new(PavlovCorridor::new(Corridor(0)), 50))
/// # }
/// ```
#[macro_export]
macro_rules! gymnasium_rs_env {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident($env:ty) of $($gymnasium:ident)::+,
        obs: $obs_space:ident($obs:ty), action: $act_space:ident($act:ty) $(,)?
    ) => {
        $(#[$attribute])*
        $visibility struct $name {
            env: $env,
            info: $($gymnasium)::+::core::Info,
        }

        impl $name {
            /// Wraps an environment of gymnasium-rs.
            $visibility fn new(env: $env) -> Self {
                Self { env, info: ::core::default::Default::default() }
            }
        }

        impl ::core::ops::Drop for $name {
            fn drop(&mut self) {
                $($gymnasium)::+::core::Env::<$obs, $act>::close(&mut self.env)
            }
        }

        impl $crate::pavlov_envs::Env for $name {
            type Obs = $crate::gymnasium_rs_env!(@element $obs_space);
            type Act = $crate::gymnasium_rs_env!(@element $act_space);

            fn observation_space(&self) -> $crate::pavlov_envs::Space {
                let space = $($gymnasium)::+::core::Env::<$obs, $act>::observation_space(&self.env);
                $crate::gymnasium_rs_env!(@space space, $($gymnasium)::+)
            }

            fn action_space(&self) -> $crate::pavlov_envs::Space {
                let space = $($gymnasium)::+::core::Env::<$obs, $act>::action_space(&self.env);
                $crate::gymnasium_rs_env!(@space space, $($gymnasium)::+)
            }

            fn reset(&mut self, seed: ::core::option::Option<u64>, obs: &mut [Self::Obs]) -> $crate::pavlov_envs::Result<()> {
                let (found, info): ($obs, _) = $($gymnasium)::+::core::Env::<$obs, $act>::reset(
                    &mut self.env,
                    seed.map($crate::seed),
                    ::core::default::Default::default(),
                );
                self.info = info;
                $crate::write(obs, $crate::gymnasium_rs_env!(@scalars found, $obs_space))
            }

            fn step(&mut self, action: &[Self::Act], obs: &mut [Self::Obs]) -> $crate::pavlov_envs::Result<$crate::pavlov_envs::Step> {
                let action: $act = $crate::gymnasium_rs_env!(@action action, $act_space, $act);
                let (found, reward, terminated, truncated, info): ($obs, _, _, _, _) =
                    $($gymnasium)::+::core::Env::<$obs, $act>::step(&mut self.env, action);
                self.info = info;
                $crate::write(obs, $crate::gymnasium_rs_env!(@scalars found, $obs_space))?;
                ::core::result::Result::Ok($crate::pavlov_envs::Step { reward: reward as f64, terminated, truncated })
            }

            fn info(&self, key: &str) -> ::core::option::Option<f64> {
                self.info.get(key)?.as_f64()
            }

            fn render(&mut self) -> $crate::pavlov_envs::Result<::core::option::Option<$crate::pavlov_envs::Frame>> {
                $($gymnasium)::+::core::Env::<$obs, $act>::render(&self.env)
                    .map(|image| $crate::frame(image.dim(), image.iter().copied()))
                    .transpose()
            }
        }
    };

    (@element Box) => { f32 };
    (@element Discrete) => { i64 };

    (@space $space:ident, $($gymnasium:ident)::+) => {
        match $space {
            $($gymnasium)::+::core::Space::Discrete(n) => $crate::pavlov_envs::Space::discrete(n as i64),
            $($gymnasium)::+::core::Space::Box { low, high } => $crate::boxed(
                low.iter().map(|&x| x as f64).collect(),
                high.iter().map(|&x| x as f64).collect(),
            ),
        }
    };

    (@scalars $found:ident, Box) => { ::core::iter::IntoIterator::into_iter($found).map(|x| x as f32) };
    (@scalars $found:ident, Discrete) => { ::core::iter::once($found as i64) };

    (@action $action:ident, Box, $act:ty) => { $action.iter().map(|&x| x as _).collect::<$act>() };
    (@action $action:ident, Discrete, $act:ty) => { $action[0] as $act };
}

/// Converts a 64-bit seed to the 31 bits of gymnasium-rs.
#[doc(hidden)]
pub fn seed(seed: u64) -> i32 {
    ((seed ^ seed >> 31 ^ seed >> 62) & 0x7fff_ffff) as i32
}

#[doc(hidden)]
pub fn boxed(low: Vec<f64>, high: Vec<f64>) -> Space {
    Space::Box { shape: vec![low.len()], low, high, dtype: DType::F32 }
}

/// Writes `scalars` into `obs`; their number must equal its length.
#[doc(hidden)]
pub fn write<T: Element>(obs: &mut [T], scalars: impl Iterator<Item = T>) -> Result<()> {
    let mut found = 0;
    for scalar in scalars {
        if let Some(place) = obs.get_mut(found) {
            *place = scalar;
        }
        found += 1;
    }
    if found == obs.len() {
        return Ok(());
    }
    Err(Error::Shape {
        what: "an observation of gymnasium-rs",
        found: format!("{found} long"),
        expected: format!("{} long, as its space says", obs.len()),
    })
}

#[doc(hidden)]
pub fn frame(
    (height, width, channels): (usize, usize, usize),
    rgb: impl Iterator<Item = u8>,
) -> Result<Frame> {
    if channels != 3 {
        return Err(Error::Shape {
            what: "the last dimension of a picture of gymnasium-rs",
            found: channels.to_string(),
            expected: "3: red, green, blue".into(),
        });
    }
    Ok(Frame { width, height, rgb: rgb.collect() })
}
