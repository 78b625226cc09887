//! [`Agents`]: what [`Seats`](crate::sample::seats::Seats) reads of the agents of an environment, and writes for them.

use pavlov_envs::DType;

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

    /// The bytes of one agent's action for the next step, to be written.
    fn action_mut(&mut self, copy: usize, agent: usize) -> &mut [u8];
}
