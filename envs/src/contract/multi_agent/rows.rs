//! Owned buffers for the output rows of a multi-agent environment.

use std::ops::Range;

use super::{MultiAgentEnv, MultiAgentOut};
use crate::Element;

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

/// Returns the range of each agent's elements in a row of all agents' elements, given their numbers.
pub(crate) fn ranges(widths: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |width| {
        end += width;
        end - width..end
    };
    widths.into_iter().map(range).collect()
}

/// Number of elements of all agents together.
pub(crate) fn end(ranges: &[Range<usize>]) -> usize {
    ranges.last().map_or(0, |last| last.end)
}
