//! The source of fragments: copies of a single-agent or a multi-agent environment.

use crate::base::{Episode, Result, SamplerPerf, State};
use crate::experience::Fragment;
use crate::policy::PolicyMap;
use crate::sample::callbacks::Callbacks;
use crate::sample::filter::MeanStdFilter;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Receives the rows of one policy, by its id.
pub(crate) type TakeRows<'a> = dyn FnMut(&str, Fragment<'_>) -> Result<()> + 'a;

/// Copies of an environment, and the fragment sampled from them.
pub(crate) trait FragmentSource: Send + Debug {
    /// Steps every copy `rollout_fragment_length` times.
    fn fill(
        &mut self,
        policies: &mut PolicyMap,
        explore: bool,
        timestep: u64,
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<()>;

    /// Passes the sampled rows of every learning policy to `f`, if it has some.
    fn lend(&mut self, f: &mut TakeRows<'_>) -> Result<()>;

    /// Number of environment copies.
    fn copies(&self) -> usize;

    /// The episodes that ended since the last call.
    fn take_episodes(&mut self) -> Vec<Episode>;

    /// Changes the task of all copies, from their next episodes on.
    fn set_task(&mut self, task: &Value) -> Result<()>;

    /// Times of the sampling steps since the last call.
    fn take_perf(&mut self) -> SamplerPerf;

    /// Observation filters by policy id.
    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter>;

    /// The state that the next fragment depends on, including environments in the middle of episodes.
    fn state(&self) -> Result<State>;

    /// Restores the [`state`](Self::state). Returns `false` if these environments cannot be restored in the middle of
    /// an episode; they start new episodes then.
    fn set_state(&mut self, state: &State, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<bool>;
}
