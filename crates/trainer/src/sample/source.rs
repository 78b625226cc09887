//! [`FragmentSource`]: copies of an environment, or episodes that other programs play, from which fragments are sampled.

use crate::base::{Episode, SamplerPerf, notice_once};
use crate::policy::PolicyMap;
use crate::sample::callbacks::Callbacks;
use crate::sample::filter::MeanStdFilter;
use pavlov_learn::base::{Error, Result, State};
use pavlov_learn::experience::Fragment;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A function that receives the id of a policy and the rows sampled for it.
pub(crate) type TakeRows<'a> = dyn FnMut(&str, Fragment<'_>) -> Result<()> + 'a;

/// Copies of an environment, with the rows that were sampled from them last.
pub(crate) trait FragmentSource: Send + Debug {
    /// Samples a fragment: steps every copy `rollout_fragment_length` times. `timestep` is the number of environment
    /// steps before. Returns the number of its own.
    fn fill(
        &mut self,
        policies: &mut PolicyMap,
        explore: bool,
        timestep: u64,
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<u64>;

    /// Calls `f` with the sampled rows of every policy that learns and has rows.
    fn lend(&mut self, f: &mut TakeRows<'_>) -> Result<()>;

    /// Number of environment copies.
    fn copies(&self) -> usize;

    /// Returns the episodes that ended since the last call.
    fn take_episodes(&mut self) -> Vec<Episode>;

    /// Sets the task of all copies, from their next episodes on.
    fn set_task(&mut self, task: &Value) -> Result<()>;

    /// Returns the time spent on each phase of sampling since the last call.
    fn take_perf(&mut self) -> SamplerPerf;

    /// Observation filters by policy id.
    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter>;

    /// Returns the state that the next fragment depends on, including environments in the middle of episodes.
    fn state(&self) -> Result<State>;

    /// Restores the state that [`state`](Self::state) returned. Returns `false` if the environments could not be
    /// restored in the middle of their episodes and have started new ones.
    fn set_state(&mut self, state: &State, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<bool>;
}

/// Whether environments came back to the middle of their episodes. If these cannot be played again, says so once; other errors
/// are passed on.
pub(crate) fn came_back<E: Into<Error>>(loaded: std::result::Result<(), E>) -> Result<bool> {
    let error = match loaded.map_err(E::into) {
        Ok(()) => return Ok(true),
        Err(error) => error,
    };
    if !matches!(&error, Error::Env(error) if error.is_replay()) {
        return Err(error);
    }
    tracing::info!("{error}");
    notice_once(
        "the episodes that were running cannot be played again, because the environment is not repeatable under a seed or \
         has changed: every copy starts a new episode. Weights, optimizers, buffers, counters and filters are as saved",
    );
    Ok(false)
}
