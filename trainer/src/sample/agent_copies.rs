//! Copies of a multi-agent environment, with the bytes of their actions and observations, agent after agent.

use crate::base::{Error, Result, State};
use crate::sample::agents::{AgentStep, Agents};
use pavlov_envs::{AnyMultiAgentEnv, DType, Frame, MultiAgentOut};
use std::ops::Range;

/// Copies of a multi-agent environment, and the results of their last reset or step, ordered by copy and then by
/// agent.
#[derive(Debug)]
pub(crate) struct AgentCopies {
    envs: Vec<Box<dyn AnyMultiAgentEnv>>,
    names: Vec<String>,
    /// Byte range of each agent's observation within the row of its copy.
    obs_ranges: Vec<Range<usize>>,
    /// Byte range of each agent's action within the row of its copy.
    action_ranges: Vec<Range<usize>>,
    /// Observations, one row per copy, in words of eight bytes, so that rows are aligned for every scalar type.
    obs: Vec<u64>,
    /// Actions, one row per copy, in words of eight bytes.
    actions: Vec<u64>,
    /// Number of words in a row of `obs`.
    obs_words: usize,
    /// Number of words in a row of `actions`.
    action_words: usize,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    alive: Vec<bool>,
    acting: Vec<bool>,
}

impl AgentCopies {
    pub(crate) fn new(envs: Vec<Box<dyn AnyMultiAgentEnv>>) -> Self {
        let env = envs.first();
        let names = env.map(|env| env.agents()).unwrap_or_default();
        let ranges = |width: &dyn Fn(usize) -> usize| -> Vec<Range<usize>> {
            let ends = (0..names.len()).scan(0, |end, agent| {
                let start = *end;
                *end += width(agent);
                Some(start..*end)
            });
            ends.collect()
        };
        let of = |f: &dyn Fn(&dyn AnyMultiAgentEnv) -> usize| env.map_or(0, |env| f(env.as_ref()));
        let obs_ranges =
            ranges(&|agent| of(&|env| env.observation_space(agent).width() * env.obs_dtype().size()));
        let action_ranges =
            ranges(&|agent| of(&|env| env.action_space(agent).width() * env.act_dtype().size()));
        let words = |ranges: &[Range<usize>]| ranges.last().map_or(0, |last| last.end.div_ceil(8));
        let obs_words = words(&obs_ranges);
        let action_words = words(&action_ranges);
        let rows = envs.len() * names.len();
        Self {
            obs: vec![0; obs_words * envs.len()],
            actions: vec![0; action_words * envs.len()],
            obs_words,
            action_words,
            rewards: vec![0.0; rows],
            terminated: vec![false; rows],
            truncated: vec![false; rows],
            alive: vec![false; rows],
            acting: vec![false; rows],
            names,
            obs_ranges,
            action_ranges,
            envs,
        }
    }

    /// Renders one copy.
    pub(crate) fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        Ok(self.envs[copy].render()?)
    }

    /// Resets one copy, which begins a new episode.
    pub(crate) fn reset(&mut self, copy: usize, seed: u64) -> Result<()> {
        self.call(copy, |env, _, out| env.reset(Some(seed), out))
    }

    /// Steps every copy with the actions that were written through [`Agents::action_mut`].
    pub(crate) fn step(&mut self) -> Result<()> {
        (0..self.envs.len()).try_for_each(|copy| self.call(copy, |env, actions, out| env.step(actions, out)))
    }

    fn call(
        &mut self,
        copy: usize,
        f: impl FnOnce(&mut dyn AnyMultiAgentEnv, &[u8], MultiAgentOut<'_, u8>) -> pavlov_envs::Result<()>,
    ) -> Result<()> {
        let agents = self.names.len();
        let rows = copy * agents..(copy + 1) * agents;
        let end = |ranges: &[Range<usize>]| ranges.last().map_or(0, |last| last.end);
        let obs = self.obs_words;
        let actions = self.action_words;
        let obs = bytemuck::cast_slice_mut(&mut self.obs[copy * obs..][..obs]);
        let actions: &[u8] = bytemuck::cast_slice(&self.actions[copy * actions..][..actions]);
        let out = MultiAgentOut {
            obs: &mut obs[..end(&self.obs_ranges)],
            rewards: &mut self.rewards[rows.clone()],
            terminated: &mut self.terminated[rows.clone()],
            truncated: &mut self.truncated[rows.clone()],
            alive: &mut self.alive[rows.clone()],
            acting: &mut self.acting[rows.clone()],
        };
        f(self.envs[copy].as_mut(), &actions[..end(&self.action_ranges)], out)?;
        for row in rows {
            if self.acting[row] && !self.alive[row] {
                let agent = &self.names[row % agents];
                let fault = "is to act, but it is not alive; an agent that has ended acts no more";
                let message = format!("copy {copy}: {agent} {fault}");
                return Err(pavlov_envs::Error::Contract { check: "turn", message }.into());
            }
            // If both flags are set, the agent has terminated: no value follows its last step.
            self.truncated[row] &= !self.terminated[row];
        }
        Ok(())
    }

    /// Rewards of one copy's agents in the last step.
    pub(crate) fn rewards(&self, copy: usize) -> &[f64] {
        &self.rewards[copy * self.names.len()..][..self.names.len()]
    }

    /// Whether the episode of one copy has ended (no agent is alive), and whether any of its agents was truncated in
    /// the last step.
    pub(crate) fn ended(&self, copy: usize) -> (bool, bool) {
        let rows = copy * self.names.len()..(copy + 1) * self.names.len();
        (!self.alive[rows.clone()].contains(&true), self.truncated[rows].contains(&true))
    }

    /// Saves the environments in the middle of their episodes; saves `None` if one of them cannot be saved.
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        let saved: Option<Vec<Vec<u8>>> = self.envs.iter().map(|env| env.save_state()).collect();
        let Some(saved) = saved else { return state.set("envs", &Option::<u8>::None) };
        state.set("env_sizes", &saved.iter().map(Vec::len).collect::<Vec<_>>())?;
        state.set_array("envs", saved.concat());
        Ok(())
    }

    /// Restores the environments that [`save`](Self::save) saved.
    pub(crate) fn restore(&mut self, state: &State) -> Result<()> {
        let sizes = state.get::<Vec<usize>>("env_sizes")?;
        let all = state.array("envs")?;
        let mut rest = all.read::<u8>();
        if sizes.len() != self.envs.len() || sizes.iter().sum::<usize>() != rest.len() {
            let reason = format!("it is of {} copies, but there are {}", sizes.len(), self.envs.len());
            return Err(Error::state("a worker's environments", reason));
        }
        for (env, size) in self.envs.iter_mut().zip(sizes) {
            let (own, others) = rest.split_at(size);
            env.load_state(own)?;
            rest = others;
        }
        Ok(())
    }
}

impl Agents for AgentCopies {
    fn len(&self) -> usize {
        self.envs.len()
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn act_dtype(&self) -> DType {
        self.envs.first().map_or(DType::I64, |env| env.act_dtype())
    }

    fn obs(&self, copy: usize, agent: usize) -> &[u8] {
        let words = &self.obs[copy * self.obs_words..][..self.obs_words];
        &bytemuck::cast_slice(words)[self.obs_ranges[agent].clone()]
    }

    fn agent(&self, copy: usize, agent: usize) -> AgentStep {
        let row = copy * self.names.len() + agent;
        AgentStep {
            reward: self.rewards[row],
            terminated: self.terminated[row],
            truncated: self.truncated[row],
            acting: self.acting[row],
        }
    }

    fn read_mask(&self, copy: usize, agent: usize, mask: &mut [bool]) -> bool {
        self.envs[copy].action_mask(agent, mask)
    }

    fn action_mut(&mut self, copy: usize, agent: usize) -> &mut [u8] {
        let words = &mut self.actions[copy * self.action_words..][..self.action_words];
        &mut bytemuck::cast_slice_mut(words)[self.action_ranges[agent].clone()]
    }
}
