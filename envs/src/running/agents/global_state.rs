//! A wrapper that adds all agents' observations to each agent's own, for centralized critics.

use std::ops::Range;

use crate::{
    AnyMultiAgentEnv, DType, Error, MultiAgentOut, Result, Space,
    contract::forward::{agent_methods, forward_to},
    contract::multi_agent::{end, ranges},
};

/// A multi-agent environment whose agents observe `Dict(obs, state)`: `obs` is the agent's own observation, and `state`
/// is the tuple of all agents' observations, with zeros for absent agents.
pub(crate) struct GlobalState {
    env: Box<dyn AnyMultiAgentEnv>,
    /// Byte range of each agent's own observation in `all`.
    own: Vec<Range<usize>>,
    /// Observations of all agents; `u64` words are aligned for every scalar type.
    all: Vec<u64>,
}

impl GlobalState {
    pub(crate) fn new(env: Box<dyn AnyMultiAgentEnv>) -> Self {
        let bytes = |agent| env.observation_space(agent).width() * env.obs_dtype().size();
        let own = ranges((0..env.agents().len()).map(bytes));
        Self { all: vec![0; end(&own).div_ceil(8)], own, env }
    }

    fn call(
        &mut self,
        mut out: MultiAgentOut<'_, u8>,
        f: impl FnOnce(&mut dyn AnyMultiAgentEnv, MultiAgentOut<'_, u8>) -> Result<()>,
    ) -> Result<()> {
        let bytes = end(&self.own);
        let wanted = bytes + self.own.len() * bytes;
        if out.obs.len() != wanted {
            let [found, wanted] = [out.obs.len(), wanted].map(|n| format!("{n} bytes"));
            return Err(Error::shape("`obs`", found, wanted));
        }
        let all = &mut bytemuck::cast_slice_mut(&mut self.all)[..bytes];
        f(self.env.as_mut(), MultiAgentOut { obs: &mut *all, ..out.reborrow() })?;
        let mut rows = out.obs;
        for (agent, own) in self.own.iter().enumerate() {
            let (row, rest) = rows.split_at_mut(own.len() + bytes);
            if out.alive[agent] || out.terminated[agent] || out.truncated[agent] {
                let (front, behind) = row.split_at_mut(own.len());
                front.copy_from_slice(&all[own.clone()]);
                behind.copy_from_slice(all);
            } else {
                row.fill(0);
            }
            rows = rest;
        }
        Ok(())
    }
}

impl AnyMultiAgentEnv for GlobalState {
    fn observation_space(&self, agent: usize) -> Space {
        let all = (0..self.own.len()).map(|agent| self.env.observation_space(agent)).collect();
        Space::dict([("obs", self.env.observation_space(agent)), ("state", Space::Tuple(all))])
    }

    agent_methods! {
        forward_to env:
        fn agents(&self) -> Vec<String>;
        fn action_space(&self, agent: usize) -> Space;
        fn obs_dtype(&self) -> DType;
        fn act_dtype(&self) -> DType;
        fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool;
        fn info(&self, agent: usize, key: &str) -> Option<f64>;
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()> {
        self.call(out, |env, out| env.reset(seed, out))
    }

    fn step(&mut self, actions: &[u8], out: MultiAgentOut<'_, u8>) -> Result<()> {
        self.call(out, |env, out| env.step(actions, out))
    }
}
