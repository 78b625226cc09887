//! The wrapper that truncates the episodes of an environment with several agents.

use crate::{
    AnyMultiAgentEnv, DType, Frame, MultiAgentOut, Result, Space, contract::forward::forward_to,
    contract::state,
};

const TAG: &str = "agents_time_limit";

/// Truncates every agent that is still in the episode after `limit` steps, also one that terminates in the last of them.
pub(crate) struct TimeLimit {
    env: Box<dyn AnyMultiAgentEnv>,
    limit: usize,
    step: usize,
}

impl TimeLimit {
    pub(crate) fn new(env: Box<dyn AnyMultiAgentEnv>, limit: usize) -> Self {
        Self { env, limit, step: 0 }
    }

    fn is_over(&self) -> bool {
        self.step >= self.limit
    }
}

impl AnyMultiAgentEnv for TimeLimit {
    forward_to! {
        env:
        fn agents(&self) -> Vec<String>;
        fn observation_space(&self, agent: usize) -> Space;
        fn action_space(&self, agent: usize) -> Space;
        fn obs_dtype(&self) -> DType;
        fn act_dtype(&self) -> DType;
        fn set_reset_options(&mut self, options: &crate::ResetOptions) -> Result<()>;
        fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool;
        fn info(&self, agent: usize, key: &str) -> Option<f64>;
        fn info_value(&mut self, agent: usize, key: &str) -> Result<Option<serde_json::Value>>;
        fn render(&mut self) -> Result<Option<Frame>>;
        fn render_fps(&self) -> Option<f64>;
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()> {
        self.step = 0;
        self.env.reset(seed, out)
    }

    fn step(&mut self, actions: &[u8], mut out: MultiAgentOut<'_, u8>) -> Result<()> {
        if self.is_over() {
            return Err(crate::Error::other(format!(
                "the episode was cut after {} steps; call `reset` before the next `step`",
                self.limit
            )));
        }
        self.env.step(actions, out.reborrow())?;
        self.step += 1;
        if self.is_over() {
            for agent in 0..out.alive.len() {
                out.truncated[agent] |= out.alive[agent] || out.terminated[agent];
            }
            out.alive.fill(false);
            out.acting.fill(false);
        }
        Ok(())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some(state::save(TAG, &(self.step, self.env.save_state()?)))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (step, inner): (_, &[u8]) = state::load(TAG, state)?;
        self.env.load_state(inner)?;
        self.step = step;
        Ok(())
    }
}
