//! Environments for pavlov: spaces, single and vector environments, native environments, and numpy-compatible seeding.
//!
//! * [`Env`] is what an author writes: one copy. [`check_env`] tests it.
//! * [`VectorEnv`] steps many copies at once: [`SyncVectorEnv`] in a loop, [`ThreadVectorEnv`] on
//!   rayon's threads, [`ClassicVector`](native::ClassicVector) as a struct of arrays. [`check_vector_env`] tests them.
//! * [`AnyVectorEnv`] is a vector environment with its types erased; [`make_vec`] gives one by id and
//!   [`EnvCreator`] by id or closure.
//! * [`wrappers`] change one thing each of an [`Env`] or a [`VectorEnv`], for example
//!   [`FrameStack`](wrappers::FrameStack); with [`TypedVectorEnv`] they fit around a registered one. To write your own,
//!   implement [`Wrapper`]; [`register_wrapper`] gives it a name.
//! * [`PyVec`](python::PyVec) is any Gymnasium environment in Python processes, by ids such as `py:LunarLander-v3`.
//! * [`MultiAgentEnv`] is an environment with several agents; [`make_multi_agent`] gives one by id, and
//!   [`check_multi_agent_env`] tests it. [`PyMultiAgentEnv`](python::PyMultiAgentEnv) is a PettingZoo environment, by ids
//!   such as `pz:mpe2.simple_spread_v3`. [`MultiAgentVector`] steps copies together, on threads too.
//! * [`ExternalEnv`] is an environment that other programs play; [`external`] has their messages.
//! * [`native`] has the types and settings of the environments that are written in Rust.
//! * [`Space`] describes observations and actions; both are flat rows of scalars.
//!
//! Three rules hold everywhere. An episode is a function of its seed and its actions, so it can be replayed.
//! `terminated` and `truncated` are kept apart. No step allocates memory: results are written into the caller's slices.
//! Two places do allocate: the queue of rayon's threads ([`ThreadVectorEnv`]) and the bounds of a box in
//! [`MultiAgentEnv::check_action`].
//!
//! ```
//! use pavlov_envs::{Env, native::{CartPole, CartPoleConfig}};
//!
//! # fn main() -> pavlov_envs::Result<()> {
//! let mut env = CartPole::new(CartPoleConfig::default());
//! let mut obs = [0.0; 4];
//! env.reset(Some(42), &mut obs)?;
//! // Gymnasium's CartPole-v1 starts here too with seed 42.
//! assert_eq!(obs, [0.027395604, -0.006112156, 0.035859793, 0.019736802]);
//! let step = env.step(&[1], &mut obs)?;
//! assert_eq!(step.reward, 1.0);
//! # Ok(())
//! # }
//! ```

/// The examples of the README, which `cargo test --doc` runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod check;
mod contract;
pub mod native;
mod np_random;
pub mod python;
mod registry;
mod render;
mod running;
pub mod wrappers;

pub use check::speed::{Speed, measure_multi_agent_speed, measure_speed};
pub use check::{
    Examination, Finding, check_any_multi_agent_env, check_any_multi_agent_env_within, check_env,
    check_multi_agent_env, check_vector_env, check_vector_env_within, examine_multi_agent_env,
    examine_vector_env, seems_endless,
};
pub use contract::any_vector::AnyVectorEnv;
pub use contract::element::{DType, Element};
pub use contract::env::{Env, Frame, ResetOptions, Step};
pub use contract::error::{Error, Result};
pub use contract::external::{self, ExternalEnv};
pub use contract::multi_agent::{
    AnyMultiAgentEnv, MultiAgentEnv, MultiAgentOut, MultiAgentRows, TypedMultiAgentEnv,
};
pub use contract::space::{BoxBounds, Layout, Leaf, Space, SpaceSampler};
pub use contract::typed_vector::TypedVectorEnv;
pub use contract::vector::{StepOut, VectorEnv};
pub use np_random::NpRandom;
pub use registry::creator::{EnvCopies, EnvCreator, IntoEnvCreator};
pub use registry::env_config::EnvConfig;
pub use registry::ids::{
    ids, make_multi_agent, make_vec, multi_agent_ids, multi_agent_spec, register, register_multi_agent, spec,
};
pub use registry::spec::EnvSpec;
pub use render::gif::encode_gif;
pub use running::multi_agent_vector::MultiAgentVector;
pub use running::sync_vector::SyncVectorEnv;
pub use running::thread_vector::ThreadVectorEnv;
pub use wrappers::{CopiesToWrap, Wrapped, WrappedVector, Wrapper, WrapperSpec, register_wrapper};
