//! Multi-agent environments with their scalar types erased.

use super::{MultiAgentEnv, MultiAgentOut};
use crate::{
    DType, Element, Frame, ResetOptions, Result, Space,
    contract::any_vector::{typed, typed_mut},
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
    /// Scalar type of the observations.
    fn obs_dtype(&self) -> DType;
    /// Scalar type of the actions.
    fn act_dtype(&self) -> DType;
    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()>;
    fn step(&mut self, actions: &[u8], out: MultiAgentOut<'_, u8>) -> Result<()>;
    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool;
    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()>;
    fn info(&self, agent: usize, key: &str) -> Option<f64>;
    fn render(&mut self) -> Result<Option<Frame>>;
    fn render_fps(&self) -> Option<f64>;
    fn save_state(&self) -> Option<Vec<u8>>;
    fn load_state(&mut self, state: &[u8]) -> Result<()>;
}

impl<E: MultiAgentEnv> AnyMultiAgentEnv for E {
    fn agents(&self) -> Vec<String> {
        MultiAgentEnv::agents(self)
    }

    fn observation_space(&self, agent: usize) -> Space {
        MultiAgentEnv::observation_space(self, agent)
    }

    fn action_space(&self, agent: usize) -> Space {
        MultiAgentEnv::action_space(self, agent)
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

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        MultiAgentEnv::action_mask(self, agent, mask)
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        MultiAgentEnv::set_reset_options(self, options)
    }

    fn info(&self, agent: usize, key: &str) -> Option<f64> {
        MultiAgentEnv::info(self, agent, key)
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        MultiAgentEnv::render(self)
    }

    fn render_fps(&self) -> Option<f64> {
        MultiAgentEnv::render_fps(self)
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        MultiAgentEnv::save_state(self)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        MultiAgentEnv::load_state(self, state)
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
