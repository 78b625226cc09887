//! A wrapper that adds all agents' observations to each agent's own, for centralized critics.

use crate::{
    AnyMultiAgentEnv, DType, MultiAgentOut, Result, Space,
    contract::forward::{agent_methods, forward_to},
    contract::multi_agent::{AgentRows, check_bytes},
};
use std::ops::Range;

/// A multi-agent environment whose agents observe `Dict(obs, state)`: `obs` is the agent's own observation, and `state`
/// is the tuple of all agents' observations, with zeros for absent agents. An agent whose episode has ended is absent at
/// once for all others, but for those that were truncated in the same step: the value of their last observation counts.
pub(crate) struct GlobalState {
    env: Box<dyn AnyMultiAgentEnv>,
    /// Each agent's own observation; the other rows are not used.
    own: AgentRows,
    /// For each agent, whether each of all agents is in its state.
    seen: Vec<Vec<bool>>,
}

impl GlobalState {
    pub(crate) fn new(env: Box<dyn AnyMultiAgentEnv>) -> Self {
        let own = AgentRows::new(env.as_ref());
        let agents = own.alive.len();
        Self { own, env, seen: vec![vec![false; agents]; agents] }
    }

    fn call(
        &mut self,
        mut out: MultiAgentOut<'_, u8>,
        f: impl FnOnce(&mut dyn AnyMultiAgentEnv, MultiAgentOut<'_, u8>) -> Result<()>,
    ) -> Result<()> {
        let agents = self.own.alive.len();
        let bytes = self.own.all_obs().len();
        check_bytes("`obs`", out.obs.len(), bytes + agents * bytes)?;
        f(self.env.as_mut(), MultiAgentOut { obs: self.own.split().1.obs, ..out.reborrow() })?;
        let mut rest = out.obs;
        for agent in 0..agents {
            let own = self.own.obs(agent);
            let (row, behind) = rest.split_at_mut(own.len() + bytes);
            if out.alive[agent] || out.terminated[agent] || out.truncated[agent] {
                row[..own.len()].copy_from_slice(own);
                let state = &mut row[own.len()..];
                state.copy_from_slice(self.own.all_obs());
                let mut start = 0;
                for (other, is_seen) in self.seen[agent].iter_mut().enumerate() {
                    let cut = |i: usize| out.truncated[i] && !out.terminated[i];
                    *is_seen = out.alive[other] || other == agent || (cut(agent) && cut(other));
                    let width = self.own.obs(other).len();
                    if !*is_seen {
                        state[start..start + width].fill(0);
                    }
                    start += width;
                }
            } else {
                row.fill(0);
            }
            rest = behind;
        }
        Ok(())
    }
}

impl AnyMultiAgentEnv for GlobalState {
    fn observation_space(&self, agent: usize) -> Space {
        let all = (0..self.own.alive.len()).map(|agent| self.env.observation_space(agent)).collect();
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
        fn info_value(&mut self, agent: usize, key: &str) -> Result<Option<serde_json::Value>>;
    }

    fn absent_parts(&self, agent: usize, parts: &mut Vec<Range<usize>>) {
        let mut start = self.env.observation_space(agent).flat_width();
        for (other, is_seen) in self.seen[agent].iter().enumerate() {
            let width = self.env.observation_space(other).flat_width();
            if !is_seen {
                parts.push(start..start + width);
            }
            start += width;
        }
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()> {
        self.call(out, |env, out| env.reset(seed, out))
    }

    fn step(&mut self, actions: &[u8], out: MultiAgentOut<'_, u8>) -> Result<()> {
        self.call(out, |env, out| env.step(actions, out))
    }
}
