//! Environments for pavlov: spaces, one copy or many, native environments, seeding like numpy's.
//!
//! * [`Env`] is what an author writes: one copy. [`check_env`] tests it.
//! * [`VectorEnv`] steps many copies at once: [`SyncVectorEnv`] in a loop, [`ThreadVectorEnv`] on
//!   rayon's threads, [`CartPoleVector`] as a struct of arrays. [`check_vector_env`] tests them.
//! * [`AnyVectorEnv`] is a vector environment with its types erased; [`make_vec`] gives one by id and
//!   [`EnvCreator`] by id or closure.
//! * [`MultiAgentEnv`] is an environment with several agents; [`make_multi_agent`] gives one by id, and
//!   [`check_multi_agent_env`] tests it.
//! * [`Space`] says what observations and actions are; both are flat rows of scalars.
//!
//! Three rules run through all of it. An episode is a function of its seed and its actions, so it can
//! be replayed. `terminated` and `truncated` are different things. Nobody allocates in a step: rows
//! are written where the caller says.
//!
//! ```
//! use pavlov_envs::{CartPole, CartPoleConfig, Env};
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

mod check;
mod creator;
mod element;
mod env;
mod error;
#[doc(hidden)]
pub mod gymnasium_rs;
mod multi_agent;
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

pub use check::{check_env, check_multi_agent_env, check_vector_env};
pub use creator::{EnvConfig, EnvCreator, IntoEnvCreator};
pub use element::{DType, Element};
pub use env::{Env, Frame, Step};
pub use error::{Error, Result};
pub use multi_agent::{
    AnyMultiAgentEnv, MultiAgentEnv, MultiAgentOut, MultiAgentRows, make_multi_agent, multi_agent_ids,
    multi_agent_spec, register_multi_agent,
};
pub use native::{
    BoardGame, CartPole, CartPoleConfig, CartPoleVector, Pendulum, PendulumConfig, SimpleSpread,
    SimpleSpreadAction, SimpleSpreadConfig,
};
pub use np_random::NpRandom;
pub use registry::{EnvSpec, ids, make_vec, register, spec};
pub use space::{Layout, Leaf, Space};
pub use sync_vector::SyncVectorEnv;
pub use thread_vector::ThreadVectorEnv;
pub use time_limit::TimeLimit;
pub use vector::{AnyVectorEnv, StepOut, VectorEnv};
