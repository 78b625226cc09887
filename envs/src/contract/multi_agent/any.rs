//! Multi-agent environments with their scalar types erased.

use super::{MultiAgentEnv, MultiAgentOut};
use crate::{
    DType, Element, Result, Space,
    contract::any_vector::{typed, typed_mut},
    contract::forward::{agent_methods, call_trait, declare},
};

/// A [`MultiAgentEnv`] with its scalar types erased: rows are bytes in native byte order, aligned for the scalar type.
///
/// Implemented for every [`MultiAgentEnv`]; do not implement it for other types. The methods have the contract of the
/// methods of [`MultiAgentEnv`] with the same names; a buffer of the wrong length or alignment is an
/// [`Error::Shape`](crate::Error::Shape).
#[allow(missing_docs)]
pub trait AnyMultiAgentEnv: Send {
    fn agents(&self) -> Vec<String>;
    fn observation_space(&self, agent: usize) -> Space;
    fn action_space(&self, agent: usize) -> Space;
    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool;
    fn info(&self, agent: usize, key: &str) -> Option<f64>;
    fn info_value(&mut self, agent: usize, key: &str) -> Result<Option<serde_json::Value>>;
    agent_methods!(declare);
    /// Adds to `parts` the components of an agent's observation, numbered as in its flat form, that are zeros because they
    /// belong to agents that are not there.
    fn absent_parts(&self, _agent: usize, _parts: &mut Vec<std::ops::Range<usize>>) {}
    /// Scalar type of the observations.
    fn obs_dtype(&self) -> DType;
    /// Scalar type of the actions.
    fn act_dtype(&self) -> DType;
    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()>;
    fn step(&mut self, actions: &[u8], out: MultiAgentOut<'_, u8>) -> Result<()>;
}

impl<E: MultiAgentEnv> AnyMultiAgentEnv for E {
    agent_methods! {
        call_trait MultiAgentEnv:
        fn agents(&self) -> Vec<String>;
        fn observation_space(&self, agent: usize) -> Space;
        fn action_space(&self, agent: usize) -> Space;
        fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool;
        fn info(&self, agent: usize, key: &str) -> Option<f64>;
        fn info_value(&mut self, agent: usize, key: &str) -> Result<Option<serde_json::Value>>;
    }

    fn obs_dtype(&self) -> DType {
        E::Obs::DTYPE
    }

    fn act_dtype(&self) -> DType {
        E::Act::DTYPE
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()> {
        MultiAgentEnv::reset(self, seed, typed_out(out)?)
    }

    fn step(&mut self, actions: &[u8], out: MultiAgentOut<'_, u8>) -> Result<()> {
        MultiAgentEnv::step(self, typed("`actions`", actions)?, typed_out(out)?)
    }
}

impl std::fmt::Debug for dyn AnyMultiAgentEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyMultiAgentEnv").field("agents", &self.agents()).finish_non_exhaustive()
    }
}

fn typed_out<O: Element>(out: MultiAgentOut<'_, u8>) -> Result<MultiAgentOut<'_, O>> {
    Ok(MultiAgentOut {
        obs: typed_mut("`obs`", out.obs)?,
        rewards: out.rewards,
        terminated: out.terminated,
        truncated: out.truncated,
        alive: out.alive,
        acting: out.acting,
    })
}
