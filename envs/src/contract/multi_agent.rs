//! Environments with several agents: the [`MultiAgentEnv`] trait and its output rows.

use crate::{
    Element, Error, Frame, ResetOptions, Result, Space, contract::env::refuse_options,
    contract::type_name::short_type_name,
};

mod any;
mod rows;
mod typed;

pub use any::AnyMultiAgentEnv;
pub use rows::MultiAgentRows;
pub(crate) use rows::{AgentRows, check_bytes};
pub use typed::TypedMultiAgentEnv;

/// An environment in which several agents act.
///
/// The agents have fixed names in a fixed order, and row `i` of every slice belongs to agent `i`, whether it takes part
/// at the moment or not. Two masks say which agents take part: `alive` marks the agents in the episode, `acting` those
/// whose actions the next step reads. If all agents act at once, the masks are equal; in a board game one agent acts at
/// a time. The episode is over when no agent is alive.
///
/// | here | PettingZoo | RLlib |
/// |---|---|---|
/// | [`agents`](Self::agents) | `possible_agents` | `get_agent_ids()` |
/// | `alive` | `agents` | the agents without a `done` yet |
/// | `acting` | `agents` (parallel), `agent_selection` (AEC) | the keys of the observation dict |
/// | no agent alive | `agents` is empty | `dones["__all__"]` |
/// | all of `obs` | `state()`, if the agents together see everything | |
/// | [`action_mask`](Self::action_mask) | `observe(agent)["action_mask"]` or `infos[agent]["action_mask"]` | the same key of the observation |
///
/// A reward belongs to the step in which it was earned, also for an agent that is not acting: the player whose opponent
/// just won gets its -1 in the opponent's step, as in PettingZoo's `rewards`. A sample collector adds up the rewards of
/// an agent between two of its own actions, as RLlib's sampler does.
///
/// # Contract
///
/// * An episode is a function of its seed and the actions of the acting agents; other actions are not read.
/// * `reset` and `step` write every element of every slice of `out`; their earlier contents must not matter.
/// * An agent's observation lies in its space while it is alive and in the step in which it ends. Before it joins and
///   after it ended, its row of `obs` is zeros and its reward 0.
/// * An agent ends once: `terminated`, `truncated` or both are set in that step only, and the agent is no longer alive.
///   If both are set, it counts as terminated: the value of its state is 0.
/// * Acting agents are alive, and at least one agent acts while one is alive. An acting agent with an action mask has a
///   legal action.
/// * An action outside the space of an acting agent is an error, not a panic.
/// * Agents and spaces do not change.
///
/// [`check_multi_agent_env`](crate::check_multi_agent_env) tests these rules.
///
/// ```
/// use pavlov_envs::{MultiAgentEnv, MultiAgentOut, Result, Space, check_multi_agent_env};
///
/// /// Two players name a number each; the higher one wins a point. Five rounds.
/// struct HigherNumber(usize);
///
/// impl MultiAgentEnv for HigherNumber {
///     type Obs = f32;
///     type Act = i64;
///
///     fn agents(&self) -> Vec<String> {
///         vec!["left".into(), "right".into()]
///     }
///
///     fn observation_space(&self, _agent: usize) -> Space {
///         Space::boxed(0.0, 5.0, &[1])
///     }
///
///     fn action_space(&self, _agent: usize) -> Space {
///         Space::discrete(10)
///     }
///
///     fn reset(&mut self, _seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> Result<()> {
///         self.0 = 0;
///         out.start();
///         Ok(())
///     }
///
///     fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> Result<()> {
///         self.check_action(0, &actions[..1])?;
///         self.check_action(1, &actions[1..])?;
///         self.0 += 1;
///         let point = (actions[0] - actions[1]).signum() as f64;
///         out.obs.fill(self.0 as f32);
///         out.rewards.copy_from_slice(&[point, -point]);
///         out.terminated.fill(self.0 == 5);
///         out.truncated.fill(false);
///         out.alive.fill(self.0 < 5);
///         out.acting.fill(self.0 < 5);
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<()> {
/// check_multi_agent_env(&mut HigherNumber(0))
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no environment of several agents: it does not implement `MultiAgentEnv`",
    note = "an environment with one agent implements `Env`, and a closure that makes it is enough: `build(|| MyEnv::new())`"
)]
pub trait MultiAgentEnv: Send + 'static {
    /// Scalar type of all agents' observations.
    type Obs: Element;
    /// Scalar type of all agents' actions: `i64` when discrete, `f32` when continuous.
    type Act: Element;

    /// Names of all agents that can ever take part, in the order of their rows.
    fn agents(&self) -> Vec<String>;

    /// Space of the observations of agent number `agent`.
    fn observation_space(&self, agent: usize) -> Space;

    /// Space of the actions of agent number `agent`.
    fn action_space(&self, agent: usize) -> Space;

    /// Starts an episode. With a `seed` of `None` the environment's random generator continues; in a new environment it
    /// is seeded by the operating system.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a slice has the wrong length, and any error of the environment.
    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, Self::Obs>) -> Result<()>;

    /// Applies the actions of the acting agents. `actions` holds the rows of all agents one after the other, each as
    /// wide as the agent's action space.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a slice has the wrong length, [`Error::InvalidAction`] if the action of an acting
    /// agent is invalid, and any error of the environment. Fails if the episode is over.
    fn step(&mut self, actions: &[Self::Act], out: MultiAgentOut<'_, Self::Obs>) -> Result<()>;

    /// Writes for each discrete action of an agent whether it is legal now; all `false` if the agent is not acting. For an
    /// agent whose episode has just ended it writes which actions would be legal at its last observation, or all `false` if
    /// that is not known: values behind a truncated episode are those of legal actions. Returns `false` and writes nothing if the environment has no masks or `mask` has the wrong length.
    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        let _ = (agent, mask);
        false
    }

    /// Sets the `options` of all later resets, as those of PettingZoo's `reset`; without entries, resets are as before. The
    /// environment defines which options there are.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for any option if the environment has none, and any error about an unknown option or
    /// value.
    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        refuse_options(&short_type_name::<Self>(), options)
    }

    /// Number stored under `key` in the agent's `info` after the last `reset` or `step`; `None` if there is none.
    fn info(&self, agent: usize, key: &str) -> Option<f64> {
        let _ = (agent, key);
        None
    }

    /// Value of any kind stored under `key` in the agent's `info` after the last `reset` or `step`: a number, a text, a list or
    /// an object. `None` if there is none. By default the number of [`info`](Self::info).
    ///
    /// # Errors
    /// Returns any error of the environment.
    fn info_value(&mut self, agent: usize, key: &str) -> Result<Option<serde_json::Value>> {
        Ok(self.info(agent, key).map(Into::into))
    }

    /// Draws the current state as a picture; `None` if the environment has no picture.
    ///
    /// # Errors
    /// Returns any error of the environment.
    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(None)
    }

    /// Frames per second of the pictures of [`render`](Self::render), Gymnasium's `render_fps`; `None` if unspecified.
    fn render_fps(&self) -> Option<f64> {
        None
    }

    /// Saves everything that later steps depend on, including the random generator. `None` if the environment cannot be
    /// saved: a run that continues from a checkpoint then begins new episodes.
    fn save_state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Restores a state made by [`save_state`](Self::save_state).
    ///
    /// # Errors
    /// Returns [`Error::State`] if `state` is damaged or another environment's, or if this one saves no states, and
    /// [`Error::Replay`] if an episode that is played again does not come to the same point.
    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        Err(Error::state(format!(
            "{} bytes given, but this environment implements no `load_state`",
            state.len()
        )))
    }

    /// Checks that `action` is valid for the agent: in the space if that is discrete, finite otherwise.
    /// Implementations of [`step`](Self::step) call this method first.
    ///
    /// Every call builds the space, which allocates the bounds of a box. An environment that must not allocate keeps its
    /// space and calls [`Space::takes`].
    ///
    /// # Errors
    /// Returns [`Error::InvalidAction`] if the action is invalid for the agent.
    fn check_action(&self, agent: usize, action: &[Self::Act]) -> Result<()> {
        let space = self.action_space(agent);
        crate::contract::vector::invalid_action(&space, action)
            .map_or(Ok(()), |row| Err(Error::invalid_action(&short_type_name::<Self>(), row, &space)))
    }
}

/// Output slices of `reset` and `step` of a [`MultiAgentEnv`]: row `i` of each slice belongs to agent `i`.
#[derive(Debug)]
pub struct MultiAgentOut<'a, O> {
    /// Observations of all agents one after the other; `[agents, width]` if their spaces are equal.
    pub obs: &'a mut [O],
    /// Rewards of the step, `[agents]`; 0 after a reset.
    pub rewards: &'a mut [f64],
    /// Whether each agent's task ended in this step, `[agents]`.
    pub terminated: &'a mut [bool],
    /// Whether each agent was truncated in this step, `[agents]`. If its task also ended in this step, both flags are set.
    pub truncated: &'a mut [bool],
    /// Whether each agent is in the episode after this step, `[agents]`.
    pub alive: &'a mut [bool],
    /// Whether each agent acts in the next step, `[agents]`.
    pub acting: &'a mut [bool],
}

impl<O: Element> MultiAgentOut<'_, O> {
    /// Borrows the same slices for a shorter lifetime.
    pub fn reborrow(&mut self) -> MultiAgentOut<'_, O> {
        MultiAgentOut {
            obs: self.obs,
            rewards: self.rewards,
            terminated: self.terminated,
            truncated: self.truncated,
            alive: self.alive,
            acting: self.acting,
        }
    }

    /// Writes a common start of an episode: zeros, and every agent alive and acting.
    pub fn start(self) {
        self.obs.fill(O::default());
        self.rewards.fill(0.0);
        self.terminated.fill(false);
        self.truncated.fill(false);
        self.alive.fill(true);
        self.acting.fill(true);
    }

    /// Checks that `obs` holds `obs_width` scalars (those of all agents) and every other slice one element per agent.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] with the name of the slice of the wrong length.
    pub fn check(&self, agents: usize, obs_width: usize) -> Result<()> {
        let lens = [
            ("`obs`", self.obs.len(), obs_width),
            ("`rewards`", self.rewards.len(), agents),
            ("`terminated`", self.terminated.len(), agents),
            ("`truncated`", self.truncated.len(), agents),
            ("`alive`", self.alive.len(), agents),
            ("`acting`", self.acting.len(), agents),
        ];
        match lens.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((what, found, expected)) => Err(Error::shape(
                what,
                format_args!("{found} long"),
                format_args!("{expected} long for {agents} agents"),
            )),
        }
    }
}
