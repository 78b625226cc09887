//! Where fragments come from: environments of one agent, or of several.

use crate::base::{Episode, Result, SamplerPerf, State};
use crate::experience::Fragment;
use crate::policy::PolicyMap;
use crate::sample::callbacks::Callbacks;
use crate::sample::filter::MeanStdFilter;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Takes the rows of a policy.
pub(crate) type TakeRows<'a> = dyn FnMut(&str, Fragment<'_>) -> Result<()> + 'a;

/// Copies of an environment, and what has been sampled of them.
pub(crate) trait FragmentSource: Send + Debug {
    /// Steps every copy `rollout_fragment_length` times.
    fn fill(
        &mut self,
        policies: &mut PolicyMap,
        explore: bool,
        timestep: u64,
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<()>;

    /// Lends what was filled: the rows of every policy that learns and has some.
    fn lend(&mut self, f: &mut TakeRows<'_>) -> Result<()>;

    /// Environment copies.
    fn copies(&self) -> usize;

    /// The episodes that ended since the last call.
    fn take_episodes(&mut self) -> Vec<Episode>;

    /// Changes the task of all copies, from their next episodes on.
    fn set_task(&mut self, task: &Value) -> Result<()>;

    /// What the time went to since the last call.
    fn take_perf(&mut self) -> SamplerPerf;

    /// By policy: the filter, if there is one.
    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter>;

    /// Everything the next fragment depends on, environments in the middle of their episodes included.
    fn state(&self) -> Result<State>;

    /// Continues from [`state`](Self::state). `false`: these environments cannot be brought back to the middle of an
    /// episode and started new ones.
    fn set_state(&mut self, state: &State, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<bool>;
}
