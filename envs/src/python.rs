//! Python environments: the copies run in worker processes, and their rows are in shared memory.
//!
//! pavlov does not link libpython: a worker is `python -c` with the script beside this file. So every environment that runs
//! in the user's Python runs here, and a crash of the worker becomes an [`Error`].
//!
//! `K` workers host the `N` copies, contiguous rows each. All rows lie in one memfd that all processes map:
//! `obs`, `final_obs`, `actions`, `rewards`, `terminated`, `truncated`, `seeds`, `masks`, `final_masks`,
//! `infos`, each `[N, ..]`. For each worker, `at` holds the row that it works on, and `callers` the thread with which it
//! takes turns. A step is one byte down a pipe per worker and one byte back. All copies of a worker share these two
//! wake-ups, and `turns.rs` makes them cheap. If either side dies, the end of the pipe tells the other at once.
//!
//! | parent writes | worker does | worker answers |
//! |---|---|---|
//! | `s`, `S` | steps its rows, ended copies are reset with `seeds` (`S`: without) | `.` |
//! | `r`, `R` | resets its rows with `seeds` (`R`: without) | `.` |
//! | `{"do": ..}` and a newline | `spec`, `describe`, `describe_agents`, `start`, `limit`, `task`, `replay`, `compute_rewards`, `remarks`, `info`, `render`, `render_ansi` | `.`, or a line of JSON (`render`: then the pixels, `compute_rewards`: then the rewards) |
//!
//! Pictures come through the pipe, because the size of a picture is known only after it was drawn.
//!
//! An environment of several agents is one copy in one worker; its rows are the agents, and `alive` says which agents are alive.
//!
//! On a fault a worker writes a line `{"error": traceback}` and ends. A worker that crashes or hangs leaves the Python
//! traceback of that moment in its log (`faulthandler`), and the index of the row that it worked on in the shared memory.
//! Workers die with the parent, by the end of their pipe or, when the environment hangs, by the kernel (`PR_SET_PDEATHSIG`).
//! Each worker is the leader of a process group, or in the group of the script that started it. A second process in the
//! group, the guard, kills the group when the parent is gone, so that processes started by the environment end too.

use std::marker::PhantomData;

use crate::{
    DType, Element, EnvConfig, EnvSpec, Error, Frame, Result, Space, StepOut, VectorEnv,
    contract::element::with_scalar, contract::forward::forward_to, contract::vector::check_actions,
};

mod bridge;
mod choice;
mod config;
mod episode;
mod pettingzoo;
mod slabs;
mod spawn;
mod talk;
#[cfg_attr(not(target_os = "linux"), path = "python/no_turns.rs")]
mod turns;
mod worker;

use bridge::Bridge;
pub use config::{PyConfig, Vectorization};
pub(crate) use pettingzoo::{PREFIXES as AGENTS_PREFIXES, make_multi_agent};
pub use pettingzoo::{PyMultiAgentEnv, is_agents_id};

/// Prefix of ids of Python environments: `py:CartPole-v1`, `py:my_package:MyEnv-v0`.
pub(crate) const PREFIX: &str = "py:";

/// Copies of a Gymnasium environment in Python processes.
///
/// [`make_vec`](crate::make_vec) makes one for every id `py:ENV_ID`. `py:module:EnvId` imports `module` first, for
/// environments that register themselves on import (`py:ale_py:ALE/Pong-v5`): an installed module of that name, or else one
/// of the current directory. Nothing else is imported from the current directory. Use this type directly if you need a
/// [`VectorEnv`] and know the scalar types. The settings are in [`PyConfig`].
///
/// Saving and loading works by replaying a copy's seed and actions, so it can restore the middle of an episode; it does not
/// work for a hosted vector environment ([`Vectorization`]). The first fault in Python ends all workers, and every later
/// call returns the same error.
///
/// ```no_run
/// use pavlov_envs::{EnvConfig, VectorEnv, python::PyVec};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let mut env = PyVec::<f32, i64>::new("py:CartPole-v1", &EnvConfig::new(), 8)?;
/// let mut obs = [0.0; 8 * 4];
/// env.reset(Some(&[0, 1, 2, 3, 4, 5, 6, 7]), &mut obs)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PyVec<O, A> {
    bridge: Bridge,
    scalars: PhantomData<fn() -> (O, A)>,
}

impl<O: Element, A: Element> PyVec<O, A> {
    /// Starts the workers and makes `num_envs` copies of `id`, with or without `py:`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a setting does not fit, [`Error::Python`] if the interpreter, a package or the
    /// environment fails, and [`Error::Shape`] if `num_envs` is 0 or the environment's scalar types are not `O` and `A`.
    pub fn new(id: &str, env_config: &EnvConfig, num_envs: usize) -> Result<Self> {
        let bridge = Bridge::start(id.strip_prefix(PREFIX).unwrap_or(id), env_config, num_envs)?;
        check_dtype("the scalar type of observations", bridge.observation_space(), O::DTYPE)?;
        check_dtype("the scalar type of actions", bridge.action_space(), A::DTYPE)?;
        Ok(Self { bridge, scalars: PhantomData })
    }

    /// Number of worker processes.
    pub fn num_workers(&self) -> usize {
        self.bridge.num_workers()
    }

    /// Process ids of the workers, in the order of their rows.
    pub fn worker_pids(&self) -> Vec<u32> {
        self.bridge.worker_pids()
    }

    fn check_send(&self, actions: &[A], reset_seeds: Option<&[u64]>) -> Result<()> {
        let bridge = &self.bridge;
        check_actions(bridge.action_space(), bridge.num_envs(), actions, reset_seeds, || bridge.name())
    }
}

impl<O: Element, A: Element> VectorEnv for PyVec<O, A> {
    type Obs = O;
    type Act = A;

    forward_to! {
        bridge:
        fn num_envs(&self) -> usize;
        fn observation_space(&self) -> &Space;
        fn action_space(&self) -> &Space;
        fn action_masks(&self, masks: &mut [bool]) -> bool;
        fn final_action_masks(&self, masks: &mut [bool]) -> bool;
        fn compute_rewards(&mut self, achieved_goals: &[f64], desired_goals: &[f64], rewards: &mut [f64]) -> Result<bool>;
        fn info(&self, key: &str) -> Option<&[f64]>;
        fn info_value(&mut self, copy: usize, key: &str) -> Result<Option<serde_json::Value>>;
        fn remarks(&mut self) -> Result<Vec<String>>;
        fn max_episode_steps(&self) -> Option<usize>;
        fn limit_episodes(&mut self, steps: usize) -> bool;
        fn set_task(&mut self, task: &serde_json::Value) -> Result<()>;
        fn set_reset_options(&mut self, options: &crate::ResetOptions) -> Result<()>;
        fn save_state(&self) -> Result<Option<Vec<u8>>>;
        fn load_state(&mut self, state: &[u8]) -> Result<()>;
        fn render(&mut self, copy: usize) -> Result<Option<Frame>>;
        fn render_fps(&self) -> Option<f64>;
        fn render_ansi(&mut self, copy: usize) -> Result<Option<String>>;
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [O]) -> Result<()> {
        self.check_reset(seeds, obs)?;
        self.bridge.reset(seeds, bytemuck::cast_slice_mut(obs))
    }

    fn step(&mut self, actions: &[A], reset_seeds: Option<&[u64]>, out: StepOut<'_, O>) -> Result<()> {
        out.check(self.num_envs(), self.observation_space().width())?;
        self.check_send(actions, reset_seeds)?;
        self.bridge.step(bytemuck::cast_slice(actions), reset_seeds, out.into_bytes())
    }
}

fn check_dtype(what: &'static str, space: &Space, asked: DType) -> Result<()> {
    if space.dtype() == asked {
        return Ok(());
    }
    Err(Error::shape(what, asked, format_args!("{}, which the rows of {space} are", space.dtype())))
}

/// Returns true if the id stands for an environment in a Python process, with one agent or several: it begins with `py:`, `pz:`
/// or `ma:`.
pub fn is_python_id(id: &str) -> bool {
    id.starts_with(PREFIX) || is_agents_id(id)
}

/// Returns the part of a Python environment's id after `py:`; `None` for other ids.
pub(crate) fn python_id(id: &str) -> Option<&str> {
    id.strip_prefix(PREFIX)
}

/// Makes copies of a Python environment, whatever its scalar types; `id` is without `py:`.
pub(crate) fn make_vec(
    id: &str,
    env_config: &EnvConfig,
    num_envs: usize,
) -> Result<Box<dyn crate::AnyVectorEnv>> {
    let bridge = Bridge::start(id, env_config, num_envs)?;
    let obs_dtype = bridge.observation_space().dtype();
    let act_dtype = bridge.action_space().dtype();
    Ok(with_scalar!(obs_dtype, O => with_scalar!(act_dtype, A => {
        Box::new(PyVec::<O, A> { bridge, scalars: PhantomData })
    })))
}

/// Asks a Python process for the spec of an environment in Gymnasium's registry; `id` is without `py:`.
pub(crate) fn spec(id: &str) -> Result<EnvSpec> {
    bridge::spec(id, &EnvConfig::new())
}
