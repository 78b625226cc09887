//! Environments with several agents: what an author writes, and where a step writes.

use crate::{Element, Error, Frame, Result, Space};

mod any;
mod global_state;
mod groups;
mod rows;
mod time_limit;
mod typed;

pub use any::AnyMultiAgentEnv;
pub(crate) use global_state::GlobalState;
pub(crate) use groups::Grouped;
pub use rows::MultiAgentRows;
pub(crate) use time_limit::TimeLimit;
pub use typed::TypedMultiAgentEnv;

/// One environment in which several agents act.
///
/// The agents have fixed names in a fixed order, and agent `i` owns row `i` of everything, whether it takes part
/// at the moment or not. Two masks say which agents do: `alive`, the agents that are in the episode, and `acting`, those
/// whose actions the next step reads. Where all act at once the masks are equal; in a board game one agent acts
/// at a time. The episode is over when no agent is alive.
///
/// | here | PettingZoo | RLlib |
/// |---|---|---|
/// | [`agents`](Self::agents) | `possible_agents` | `get_agent_ids()` |
/// | `alive` | `agents` | the agents without a `done` yet |
/// | `acting` | `agents` (parallel), `agent_selection` (AEC) | the keys of the observation dict |
/// | no agent alive | `agents` is empty | `dones["__all__"]` |
/// | all of `obs` | `state()` of the environments whose agents see everything between them | |
/// | [`action_mask`](Self::action_mask) | `observe(agent)["action_mask"]` or `infos[agent]["action_mask"]` | the same key of the observation |
///
/// A reward belongs to the step in which it was earned, for waiting agents too: the player whose opponent just won
/// gets its -1 in the opponent's step, as in PettingZoo's `rewards`. A collector of samples adds up what an agent got
/// between two of its own actions, as RLlib's sampler does.
///
/// # Contract
///
/// * An episode is a function of its seed and the actions of the acting agents; other rows of `actions` are not read.
/// * `reset` and `step` write every element of every slice of `out`; what was in it before must not matter.
/// * An agent's observation lies in its space while it is alive and in the step in which it ends. Before it joins and
///   after it ended, its row of `obs` is zeros and its reward 0.
/// * An agent ends once, with `terminated`, `truncated` or both, in that step only; from then on it is not alive. With both it
///   has terminated: nothing comes after that would be worth anything.
/// * Acting agents are alive, and at least one agent acts while one is alive. An acting agent with an action mask has a
///   legal action.
/// * An action outside the space of an acting agent is an error and not a panic.
/// * Agents and spaces do not change.
///
/// [`check_multi_agent_env`](crate::check_multi_agent_env) tests all of these.
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
pub trait MultiAgentEnv: Send + 'static {
    /// Scalar type of all agents' observations.
    type Obs: Element;
    /// Scalar type of all agents' actions: `i64` when discrete, `f32` when continuous.
    type Act: Element;

    /// Names of all agents that can ever take part, in the order of the rows.
    fn agents(&self) -> Vec<String>;

    /// The set of observations of one agent, an index into [`agents`](Self::agents).
    fn observation_space(&self, agent: usize) -> Space;

    /// The set of actions of one agent.
    fn action_space(&self, agent: usize) -> Space;

    /// Starts an episode. `None` continues the environment's own random stream; that of a new environment begins with
    /// the operating system's entropy.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a slice has a wrong length, and whatever the environment reports.
    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, Self::Obs>) -> Result<()>;

    /// Takes the actions of the acting agents. `actions` holds the rows of all agents one after the other, each as
    /// wide as the agent's space.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a slice has a wrong length, and [`Error::InvalidAction`] if an acting agent cannot
    /// take its action. Fails if the episode is over. Returns whatever the environment reports.
    fn step(&mut self, actions: &[Self::Act], out: MultiAgentOut<'_, Self::Obs>) -> Result<()>;

    /// Writes which discrete actions of an agent are legal now, one flag per action, all `false` when it is not acting;
    /// `false` when the environment has no masks or `mask` has another length: nothing was written.
    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        let _ = (agent, mask);
        false
    }

    /// A number about the last `reset` or `step` by its name in the agent's `info`; `None` when there is none.
    fn info(&self, agent: usize, key: &str) -> Option<f64> {
        let _ = (agent, key);
        None
    }

    /// A picture of the current state; `None` when there is nothing to draw.
    ///
    /// # Errors
    /// Returns whatever the environment reports.
    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(None)
    }

    /// Pictures per second of the animation that [`render`](Self::render) draws, Gymnasium's `render_fps`; `None` when it
    /// does not matter.
    fn render_fps(&self) -> Option<f64> {
        None
    }

    /// Everything that later steps depend on, random stream included. `None` when there is no way to save it: a run that
    /// continues from a checkpoint then begins new episodes.
    fn save_state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Continues from what [`save_state`](Self::save_state) gave.
    ///
    /// # Errors
    /// Returns [`Error::State`] if `state` is damaged or another environment's, or if this one saves no states.
    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        Err(Error::state(format!(
            "{} bytes given, but this environment implements no `load_state`",
            state.len()
        )))
    }

    /// Checks that an acting agent can take `action`, that is, that it is in a discrete space or finite; for the first
    /// lines of [`step`](Self::step).
    ///
    /// Asks for the space every time, which for a box allocates its bounds; an environment that must not allocate
    /// keeps its space and asks [`Space::takes`].
    ///
    /// # Errors
    /// Returns [`Error::InvalidAction`] if the agent cannot take the action.
    fn check_action(&self, agent: usize, action: &[Self::Act]) -> Result<()> {
        let space = self.action_space(agent);
        crate::vector::invalid_action(&space, action).map_or(Ok(()), |row| {
            Err(Error::invalid_action(&crate::type_name::short_type_name::<Self>(), row, &space))
        })
    }
}

/// Where a reset or a step of a [`MultiAgentEnv`] writes: row `i` of each slice belongs to agent `i`.
#[derive(Debug)]
pub struct MultiAgentOut<'a, O> {
    /// Observations, one agent's row after the other; `[agents, width]` where the spaces are equal.
    pub obs: &'a mut [O],
    /// Rewards of the step, `[agents]`; 0 after a reset.
    pub rewards: &'a mut [f64],
    /// Which agents reached an end of their task in this step, `[agents]`.
    pub terminated: &'a mut [bool],
    /// Which agents were cut in this step, `[agents]`; an agent whose task ended in that very step has both flags.
    pub truncated: &'a mut [bool],
    /// Which agents are in the episode from here on, `[agents]`.
    pub alive: &'a mut [bool],
    /// Which agents act in the next step, `[agents]`.
    pub acting: &'a mut [bool],
}

impl<O: Element> MultiAgentOut<'_, O> {
    /// The same slices for a shorter while.
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

    /// Writes what most episodes start with: zeros, and every agent alive and acting.
    pub fn start(self) {
        self.obs.fill(O::default());
        self.rewards.fill(0.0);
        self.terminated.fill(false);
        self.truncated.fill(false);
        self.alive.fill(true);
        self.acting.fill(true);
    }

    /// Checks that `obs` has `obs_width` scalars (those of all agents) and every other slice one per agent.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] with the name of the slice that has not.
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
