//! Owned buffers for the output rows of a multi-agent environment.

use std::ops::Range;

use super::{AnyMultiAgentEnv, MultiAgentEnv, MultiAgentOut};
use crate::{Element, Error, Result};

/// Owned buffers for a [`MultiAgentOut`], for callers without storage of their own.
///
/// ```
/// use pavlov_envs::{MultiAgentEnv, MultiAgentRows, native::BoardGame};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let mut env = BoardGame::tictactoe();
/// let mut rows = MultiAgentRows::new(&env);
/// env.reset(None, rows.out())?;
/// // The first agent plays the middle; the second agent's action is not read.
/// env.step(&[4, 0], rows.out())?;
/// assert_eq!(rows.acting, [false, true]);
/// // The mask first, then per square: mine, the other's.
/// assert_eq!(rows.obs(1)[..9], [1, 1, 1, 1, 0, 1, 1, 1, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields of `MultiAgentOut`")]
pub struct MultiAgentRows<O> {
    pub obs: Vec<O>,
    pub rewards: Vec<f64>,
    pub terminated: Vec<bool>,
    pub truncated: Vec<bool>,
    pub alive: Vec<bool>,
    pub acting: Vec<bool>,
    ranges: Vec<Range<usize>>,
}

impl<O: Element> MultiAgentRows<O> {
    /// Allocates rows for the agents of `env`.
    pub fn new<E: MultiAgentEnv<Obs = O>>(env: &E) -> Self {
        Self::with_widths((0..env.agents().len()).map(|agent| env.observation_space(agent).width()))
    }

    /// Allocates rows for agents with observations of these widths, in scalars.
    pub fn with_widths(widths: impl IntoIterator<Item = usize>) -> Self {
        let ranges = ranges(widths);
        let agents = ranges.len();
        Self {
            obs: vec![O::default(); end(&ranges)],
            rewards: vec![0.0; agents],
            terminated: vec![false; agents],
            truncated: vec![false; agents],
            alive: vec![false; agents],
            acting: vec![false; agents],
            ranges,
        }
    }

    /// Borrows the buffers as the slices that `reset` and `step` write.
    pub fn out(&mut self) -> MultiAgentOut<'_, O> {
        MultiAgentOut {
            obs: &mut self.obs,
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
            alive: &mut self.alive,
            acting: &mut self.acting,
        }
    }

    /// Returns the observation of agent number `agent`.
    ///
    /// # Panics
    /// Panics if there is no such agent.
    pub fn obs(&self, agent: usize) -> &[O] {
        &self.obs[self.ranges[agent].clone()]
    }

    /// Whether no agent is alive, RLlib's `__all__`.
    pub fn is_over(&self) -> bool {
        !self.alive.contains(&true)
    }
}

/// Rows of all agents of one copy of an environment without scalar types: their actions and the results of the last step.
#[derive(Debug)]
pub(crate) struct AgentRows {
    /// Byte range of each agent's observation among those of all agents.
    obs_ranges: Vec<Range<usize>>,
    /// Byte range of each agent's action among those of all agents.
    action_ranges: Vec<Range<usize>>,
    /// Observations of all agents; `u64` words are aligned for every scalar type.
    obs: Vec<u64>,
    /// Actions of all agents, in words like the observations.
    actions: Vec<u64>,
    pub(crate) rewards: Vec<f64>,
    pub(crate) terminated: Vec<bool>,
    pub(crate) truncated: Vec<bool>,
    pub(crate) alive: Vec<bool>,
    pub(crate) acting: Vec<bool>,
}

impl AgentRows {
    /// Allocates rows for the agents of `env`.
    pub(crate) fn new(env: &dyn AnyMultiAgentEnv) -> Self {
        let agents = env.agents().len();
        let obs_bytes = |agent| env.observation_space(agent).width() * env.obs_dtype().size();
        let obs_ranges = ranges((0..agents).map(obs_bytes));
        let action_bytes = |agent| env.action_space(agent).width() * env.act_dtype().size();
        let action_ranges = ranges((0..agents).map(action_bytes));
        let words = |ranges: &[Range<usize>]| vec![0; end(ranges).div_ceil(8)];
        Self {
            obs: words(&obs_ranges),
            actions: words(&action_ranges),
            obs_ranges,
            action_ranges,
            rewards: vec![0.0; agents],
            terminated: vec![false; agents],
            truncated: vec![false; agents],
            alive: vec![false; agents],
            acting: vec![false; agents],
        }
    }

    /// Borrows what a step reads and what it writes.
    pub(crate) fn split(&mut self) -> (&[u8], MultiAgentOut<'_, u8>) {
        let out = MultiAgentOut {
            obs: &mut bytemuck::cast_slice_mut(&mut self.obs)[..end(&self.obs_ranges)],
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
            alive: &mut self.alive,
            acting: &mut self.acting,
        };
        (&bytemuck::cast_slice(&self.actions)[..end(&self.action_ranges)], out)
    }

    /// Observations of all agents, one after the other.
    pub(crate) fn all_obs(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.obs)[..end(&self.obs_ranges)]
    }

    /// Observation of agent number `agent`.
    pub(crate) fn obs(&self, agent: usize) -> &[u8] {
        &self.all_obs()[self.obs_ranges[agent].clone()]
    }

    /// Action of agent number `agent`, to be written.
    pub(crate) fn action_mut(&mut self, agent: usize) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.actions)[self.action_ranges[agent].clone()]
    }

    /// Checks the number of bytes in the actions of all agents.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if it is another one.
    pub(crate) fn check_actions(&self, actions: &[u8]) -> Result<()> {
        check_bytes("`actions`", actions.len(), end(&self.action_ranges))
    }
}

/// Checks the number of bytes in rows; `what` names them in the error.
///
/// # Errors
/// Returns [`Error::Shape`] if it is another one.
pub(crate) fn check_bytes(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::shape(what, format_args!("{found} bytes"), format_args!("{expected} bytes")))
}

/// Returns the range of each agent's elements in a row of all agents' elements, given their numbers.
fn ranges(widths: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |width| {
        end += width;
        end - width..end
    };
    widths.into_iter().map(range).collect()
}

/// Number of elements of all agents together.
fn end(ranges: &[Range<usize>]) -> usize {
    ranges.last().map_or(0, |last| last.end)
}
