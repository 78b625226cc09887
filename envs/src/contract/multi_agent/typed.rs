//! A type-erased multi-agent environment with its scalar types restored.

use std::marker::PhantomData;

use bytemuck::{cast_slice, cast_slice_mut};

use super::{AnyMultiAgentEnv, MultiAgentEnv, MultiAgentOut};
use crate::{
    Element, Result, Space,
    contract::any_vector::check_scalars,
    contract::forward::{agent_methods, forward_to},
};

/// A type-erased multi-agent environment with known scalar types.
///
/// ```
/// use pavlov_envs::{EnvConfig, TypedMultiAgentEnv, check_multi_agent_env, make_multi_agent};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let env = make_multi_agent("tictactoe_v3", &EnvConfig::new())?;
/// check_multi_agent_env(&mut TypedMultiAgentEnv::<u8, i64>::new(env)?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TypedMultiAgentEnv<O, A> {
    env: Box<dyn AnyMultiAgentEnv>,
    of: PhantomData<(O, A)>,
}

impl<O: Element, A: Element> TypedMultiAgentEnv<O, A> {
    /// Checks the scalar types of `env` and wraps it.
    ///
    /// # Errors
    /// Returns [`Error::Shape`](crate::Error::Shape) if the observations are not `O` or the actions are not `A`.
    pub fn new(env: Box<dyn AnyMultiAgentEnv>) -> Result<Self> {
        check_scalars::<O, A>(env.obs_dtype(), env.act_dtype())?;
        Ok(Self { env, of: PhantomData })
    }
}

fn bytes<O: Element>(out: MultiAgentOut<'_, O>) -> MultiAgentOut<'_, u8> {
    MultiAgentOut {
        obs: cast_slice_mut(out.obs),
        rewards: out.rewards,
        terminated: out.terminated,
        truncated: out.truncated,
        alive: out.alive,
        acting: out.acting,
    }
}

impl<O: Element, A: Element> MultiAgentEnv for TypedMultiAgentEnv<O, A> {
    type Obs = O;
    type Act = A;

    agent_methods! {
        forward_to env:
        fn agents(&self) -> Vec<String>;
        fn observation_space(&self, agent: usize) -> Space;
        fn action_space(&self, agent: usize) -> Space;
        fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool;
        fn info(&self, agent: usize, key: &str) -> Option<f64>;
        fn info_value(&mut self, agent: usize, key: &str) -> Result<Option<serde_json::Value>>;
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, O>) -> Result<()> {
        self.env.reset(seed, bytes(out))
    }

    fn step(&mut self, actions: &[A], out: MultiAgentOut<'_, O>) -> Result<()> {
        self.env.step(cast_slice(actions), bytes(out))
    }
}
