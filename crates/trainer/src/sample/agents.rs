//! [`Agents`]: what [`Seats`](crate::sample::seats::Seats) reads of the agents of an environment, and writes for them; and
//! [`MultiAgentVector`], the one whose episodes run here, with its part of a worker's state.

use pavlov_envs::{DType, MultiAgentVector};
use pavlov_learn::base::{Error, Result, State};
use std::ops::Range;

/// One agent's result of the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AgentStep {
    pub(crate) reward: f64,
    pub(crate) terminated: bool,
    pub(crate) truncated: bool,
    /// Whether the agent acts in the next step.
    pub(crate) acting: bool,
}

/// The agents of copies of an environment: observations, masks and results to read, actions to write. Agents are counted
/// from 0 in each copy.
pub(crate) trait Agents {
    /// Number of copies.
    fn len(&self) -> usize;

    /// Names of the agents of a copy.
    fn names(&self) -> &[String];

    /// Scalar type of actions.
    fn act_dtype(&self) -> DType;

    /// One agent's current observation, as bytes.
    fn obs(&self, copy: usize, agent: usize) -> &[u8];

    /// One agent's result of the last step.
    fn agent(&self, copy: usize, agent: usize) -> AgentStep;

    /// Writes which actions of one agent are legal now; returns `false` if the environment does not say so.
    fn read_mask(&self, copy: usize, agent: usize, mask: &mut [bool]) -> bool;

    /// Adds to `parts` the components of an agent's observation that belong to agents that are not there.
    fn absent_parts(&self, _copy: usize, _agent: usize, _parts: &mut Vec<Range<usize>>) {}

    /// The bytes of one agent's action for the next step, to be written.
    fn action_mut(&mut self, copy: usize, agent: usize) -> &mut [u8];
}

impl Agents for MultiAgentVector {
    fn len(&self) -> usize {
        self.num_envs()
    }

    fn names(&self) -> &[String] {
        self.agents()
    }

    fn act_dtype(&self) -> DType {
        self.act_dtype()
    }

    fn obs(&self, copy: usize, agent: usize) -> &[u8] {
        self.obs(copy, agent)
    }

    fn agent(&self, copy: usize, agent: usize) -> AgentStep {
        let terminated = self.terminated(copy)[agent];
        AgentStep {
            reward: self.rewards(copy)[agent],
            terminated,
            // If both flags are set, the agent has terminated: no value follows its last step.
            truncated: self.truncated(copy)[agent] && !terminated,
            acting: self.acting(copy)[agent],
        }
    }

    fn read_mask(&self, copy: usize, agent: usize, mask: &mut [bool]) -> bool {
        self.action_mask(copy, agent, mask)
    }

    fn absent_parts(&self, copy: usize, agent: usize, parts: &mut Vec<Range<usize>>) {
        self.absent_parts(copy, agent, parts);
    }

    fn action_mut(&mut self, copy: usize, agent: usize) -> &mut [u8] {
        self.action_mut(copy, agent)
    }
}

/// Whether the episode of one copy has ended (no agent is alive), and whether any of its agents was only truncated in the
/// last step.
pub(crate) fn ended(copies: &MultiAgentVector, copy: usize) -> (bool, bool) {
    let truncated = (0..copies.agents().len()).any(|agent| copies.agent(copy, agent).truncated);
    (!copies.alive(copy).contains(&true), truncated)
}

/// Saves the copies in the middle of their episodes; saves `None` if one of them cannot be saved.
pub(crate) fn save(copies: &MultiAgentVector, state: &mut State) -> Result<()> {
    let Some(saved) = copies.save_states() else { return state.set("envs", &Option::<u8>::None) };
    state.set("env_sizes", &saved.iter().map(Vec::len).collect::<Vec<_>>())?;
    state.set_array("envs", saved.concat());
    Ok(())
}

/// Restores the copies that [`save`] saved.
pub(crate) fn restore(copies: &mut MultiAgentVector, state: &State) -> Result<()> {
    let sizes = state.get::<Vec<usize>>("env_sizes")?;
    let all = state.array("envs")?;
    let mut rest = all.read::<u8>();
    let damaged = || {
        let reason = "its copies do not have as many bytes as it says; take another checkpoint";
        Error::state("a worker's environments", reason)
    };
    let mut parts = Vec::new();
    for size in sizes {
        let (own, others) = rest.split_at_checked(size).ok_or_else(damaged)?;
        parts.push(own);
        rest = others;
    }
    if !rest.is_empty() {
        return Err(damaged());
    }
    Ok(copies.load_states(&parts)?)
}
