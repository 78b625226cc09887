//! Copies of an environment with several agents, with the rows of their actions and results.

use rayon::prelude::*;

use crate::{
    AnyMultiAgentEnv, DType, Error, Frame, ResetOptions, Result, Space, contract::multi_agent::AgentRows,
    contract::state::check_count,
};

/// Copies of one environment with several agents, which the caller resets one by one and steps together.
///
/// A caller writes the actions of the acting agents with [`action_mut`](Self::action_mut), calls [`step`](Self::step), and
/// reads the results. Observations and actions are bytes in native byte order, aligned for the scalar type. An episode
/// that has ended stays as it is until [`reset`](Self::reset) starts the next one; its copy must be reset before the next
/// step. Methods panic if there is no copy or no agent of the number that they are given.
///
/// ```
/// use pavlov_envs::{EnvConfig, EnvCopies, EnvCreator};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let EnvCopies::MultiAgent(mut games) = EnvCreator::from("tictactoe_v3").make(&EnvConfig::new(), 2)? else {
///     unreachable!()
/// };
/// for copy in 0..games.num_envs() {
///     games.reset(copy, copy as u64)?;
///     games.action_mut(copy, 0).copy_from_slice(&4_i64.to_ne_bytes());
/// }
/// games.step()?;
/// assert_eq!(games.acting(1), [false, true]);
/// assert_eq!(games.obs(1, 0).len(), 9 + 18);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MultiAgentVector {
    copies: Vec<CopyWithRows>,
    agents: Vec<String>,
    /// Number of threads that share the copies.
    num_threads: usize,
}

/// One copy, and the rows of its actions and results.
#[derive(Debug)]
struct CopyWithRows {
    env: Box<dyn AnyMultiAgentEnv>,
    rows: AgentRows,
}

impl CopyWithRows {
    fn new(env: Box<dyn AnyMultiAgentEnv>) -> Self {
        Self { rows: AgentRows::new(env.as_ref()), env }
    }

    fn step(&mut self) -> Result<()> {
        let (actions, out) = self.rows.split();
        self.env.step(actions, out)
    }
}

impl MultiAgentVector {
    /// Makes a vector of these copies of one environment, stepped by one thread.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if there is no copy, if the first one has no agents, or if the agents differ between copies.
    pub fn new(envs: Vec<Box<dyn AnyMultiAgentEnv>>) -> Result<Self> {
        let agents = envs.first().map(|env| env.agents());
        let agents = agents.ok_or_else(|| Error::shape("`num_envs`", 0, "at least 1"))?;
        if agents.is_empty() {
            return Err(Error::shape("the number of agents", 0, "at least 1; `agents` names them"));
        }
        if let Some(other) = envs.iter().map(|env| env.agents()).find(|other| *other != agents) {
            let [found, expected] = [&other, &agents].map(|names| names.join(", "));
            return Err(Error::shape(
                "the agents of a copy",
                found,
                format_args!("{expected}, as in the first"),
            ));
        }
        Ok(Self { copies: envs.into_iter().map(CopyWithRows::new).collect(), agents, num_threads: 1 })
    }

    /// Lets `num_threads` threads share the copies in [`step`](Self::step), with the same results.
    #[must_use]
    pub fn with_threads(self, num_threads: usize) -> Self {
        Self { num_threads: num_threads.clamp(1, self.copies.len()), ..self }
    }

    /// Puts the same wrapper around every copy.
    ///
    /// # Errors
    /// Returns any error of `wrapper`, and [`Error::Shape`] if the agents differ between the wrapped copies.
    pub fn wrapped(
        self,
        wrapper: impl FnMut(Box<dyn AnyMultiAgentEnv>) -> Result<Box<dyn AnyMultiAgentEnv>>,
    ) -> Result<Self> {
        let num_threads = self.num_threads;
        let envs = self.into_envs().into_iter().map(wrapper).collect::<Result<_>>()?;
        Ok(Self::new(envs)?.with_threads(num_threads))
    }

    /// Takes the copies out.
    pub fn into_envs(self) -> Vec<Box<dyn AnyMultiAgentEnv>> {
        self.copies.into_iter().map(|copy| copy.env).collect()
    }

    fn first(&self) -> &dyn AnyMultiAgentEnv {
        self.copies[0].env.as_ref()
    }

    /// Number of copies of the environment.
    pub fn num_envs(&self) -> usize {
        self.copies.len()
    }

    /// Names of the agents of a copy, in the order of their rows.
    pub fn agents(&self) -> &[String] {
        &self.agents
    }

    /// Space of the observations of agent number `agent`.
    pub fn observation_space(&self, agent: usize) -> Space {
        self.first().observation_space(agent)
    }

    /// Space of the actions of agent number `agent`.
    pub fn action_space(&self, agent: usize) -> Space {
        self.first().action_space(agent)
    }

    /// Scalar type of the observations.
    pub fn obs_dtype(&self) -> DType {
        self.first().obs_dtype()
    }

    /// Scalar type of the actions.
    pub fn act_dtype(&self) -> DType {
        self.first().act_dtype()
    }

    /// Sets the options of all later resets, see
    /// [`MultiAgentEnv::set_reset_options`](crate::MultiAgentEnv::set_reset_options).
    ///
    /// # Errors
    /// Returns any error of the environment.
    pub fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.copies.iter_mut().try_for_each(|copy| copy.env.set_reset_options(options))
    }

    /// Starts an episode with `seed` in one copy.
    ///
    /// # Errors
    /// Returns any error of the environment, and [`Error::Contract`] if an agent is to act that is not alive.
    pub fn reset(&mut self, copy: usize, seed: u64) -> Result<()> {
        let CopyWithRows { env, rows } = &mut self.copies[copy];
        env.reset(Some(seed), rows.split().1)?;
        self.check_turns(copy)
    }

    /// Steps every copy with the actions that were written with [`action_mut`](Self::action_mut).
    ///
    /// # Errors
    /// Returns the error of the first copy that fails, and [`Error::Contract`] if an agent is to act that is not alive.
    pub fn step(&mut self) -> Result<()> {
        if self.num_threads == 1 {
            self.copies.iter_mut().try_for_each(CopyWithRows::step)?;
        } else {
            let block = self.copies.len().div_ceil(self.num_threads);
            let blocks = self.copies.par_chunks_mut(block);
            let step = |block: &mut [CopyWithRows]| block.iter_mut().try_for_each(CopyWithRows::step);
            // Of two errors the one of the copy with the lower number is returned.
            blocks.map(step).reduce(|| Ok(()), Result::and)?;
        }
        (0..self.copies.len()).try_for_each(|copy| self.check_turns(copy))
    }

    fn check_turns(&self, copy: usize) -> Result<()> {
        let AgentRows { alive, acting, .. } = &self.copies[copy].rows;
        match (0..self.agents.len()).find(|&agent| acting[agent] && !alive[agent]) {
            None => Ok(()),
            Some(agent) => {
                let fault = "is to act, but it is not alive; an agent that has ended acts no more";
                let message = format!("copy {copy}: {} {fault}", self.agents[agent]);
                Err(Error::Contract { check: "turn", message })
            }
        }
    }

    /// Current observation of one agent.
    pub fn obs(&self, copy: usize, agent: usize) -> &[u8] {
        self.copies[copy].rows.obs(agent)
    }

    /// Action of one agent for the next step, to be written.
    pub fn action_mut(&mut self, copy: usize, agent: usize) -> &mut [u8] {
        self.copies[copy].rows.action_mut(agent)
    }

    /// Rewards of the agents of one copy in the last step, `[agents]`.
    pub fn rewards(&self, copy: usize) -> &[f64] {
        &self.copies[copy].rows.rewards
    }

    /// Whether the task of each agent of one copy ended in the last step, `[agents]`.
    pub fn terminated(&self, copy: usize) -> &[bool] {
        &self.copies[copy].rows.terminated
    }

    /// Whether each agent of one copy was truncated in the last step, `[agents]`. If its task also ended in this step, both
    /// flags are set.
    pub fn truncated(&self, copy: usize) -> &[bool] {
        &self.copies[copy].rows.truncated
    }

    /// Whether each agent of one copy is in its episode, `[agents]`.
    pub fn alive(&self, copy: usize) -> &[bool] {
        &self.copies[copy].rows.alive
    }

    /// Whether each agent of one copy acts in the next step, `[agents]`.
    pub fn acting(&self, copy: usize) -> &[bool] {
        &self.copies[copy].rows.acting
    }

    /// Writes for each discrete action of an agent whether it is legal now; returns `false` if the environment has no masks.
    pub fn action_mask(&self, copy: usize, agent: usize, mask: &mut [bool]) -> bool {
        self.copies[copy].env.action_mask(agent, mask)
    }

    /// Adds to `parts` the components of an agent's observation, numbered as in its flat form, that are zeros because they
    /// belong to agents that are not there: absent members of a team, or absent agents of a global state.
    pub fn absent_parts(&self, copy: usize, agent: usize, parts: &mut Vec<std::ops::Range<usize>>) {
        self.copies[copy].env.absent_parts(agent, parts);
    }

    /// Draws the current state of one copy; `None` if the environment has no picture.
    ///
    /// # Errors
    /// Returns any error of the environment.
    pub fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        self.copies[copy].env.render()
    }

    /// Frames per second of the pictures; `None` if unspecified.
    pub fn render_fps(&self) -> Option<f64> {
        self.first().render_fps()
    }

    /// Saves every copy in mid-episode; `None` if one of them cannot be saved.
    pub fn save_states(&self) -> Option<Vec<Vec<u8>>> {
        self.copies.iter().map(|copy| copy.env.save_state()).collect()
    }

    /// Restores the copies from the states of [`save_states`](Self::save_states). The results of the last step are not
    /// restored.
    ///
    /// # Errors
    /// Returns [`Error::State`] if `states` has another number of copies, and the error of the environment.
    pub fn load_states(&mut self, states: &[&[u8]]) -> Result<()> {
        check_count("copies", states.len(), self.copies.len())?;
        self.copies.iter_mut().zip(states).try_for_each(|(copy, state)| copy.env.load_state(state))
    }
}
