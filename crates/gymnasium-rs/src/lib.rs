//! Environments of the crate [gymnasium-rs](gymnasium_rs) 0.1.1 as pavlov's, and pavlov's as gymnasium-rs'.
//!
//! * [`FromGymnasium`] makes a `gymnasium_rs::core::Env` a [`pavlov_envs::Env`], so that every trainer of pavlov takes
//!   it.
//! * [`ToGymnasium`] makes a [`pavlov_envs::Env`] a `gymnasium_rs::core::Env`.
//!
//! Both speak what the crate itself uses: `ndarray::Array1<f32>` for a `Box` and `i32` for a `Discrete` ([`Native`]).
//! For other types, forks and later versions there is [`gymnasium_rs_env!`], whose crate, `pavlov-gymnasium-rs-macro`, needs no gymnasium-rs.
//!
//! The crate's own `CartPole` is not Gymnasium's: its physics and rewards differ. Take [`pavlov_envs::native::CartPole`].

mod from_gymnasium;
mod native;
mod to_gymnasium;

pub use from_gymnasium::FromGymnasium;
pub use native::Native;
pub use pavlov_gymnasium_rs_macro::gymnasium_rs_env;
pub use to_gymnasium::ToGymnasium;
