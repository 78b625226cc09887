//! Environments for pavlov: spaces, one copy or many, native environments, seeding like numpy's.

mod check;
mod creator;
mod element;
mod env;
mod error;
mod native;
mod nearest;
mod np_random;
mod registry;
mod space;
mod state;
mod sync_vector;
mod thread_vector;
mod time_limit;
mod vector;

pub use check::{check_env, check_vector_env};
pub use creator::{EnvConfig, EnvCreator, IntoEnvCreator};
pub use element::{DType, Element};
pub use env::{Env, Frame, Step};
pub use error::{Error, Result};
pub use native::{CartPole, CartPoleConfig, CartPoleVector, Pendulum, PendulumConfig};
pub use np_random::NpRandom;
pub use registry::{EnvSpec, ids, make_vec, register, spec};
pub use space::{Layout, Leaf, Space};
pub use sync_vector::SyncVectorEnv;
pub use thread_vector::ThreadVectorEnv;
pub use time_limit::TimeLimit;
pub use vector::{AnyVectorEnv, StepOut, VectorEnv};
