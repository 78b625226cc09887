//! Schedulers decide which trials go on: after each result, and when there is room for one more.
//!
//! A scheduler is a function of its settings, its seed and the calls that it has seen. So its state is not saved: a
//! resumed sweep makes a new one and repeats the calls from the journal. `choose_trial_to_run` changes nothing, so it
//! need not be repeated.

mod async_hyperband;
mod by_name;
mod draws;
#[cfg(test)]
mod golden;
mod hyperband;
mod median_stopping_rule;
mod pbt;
mod policy_log;
mod resource_changing;

pub use async_hyperband::{AsyncHyperBandConfig, AsyncHyperBandScheduler};
pub use by_name::{from_config, register};
pub use hyperband::{HyperBandConfig, HyperBandScheduler};
pub use median_stopping_rule::{MedianStoppingConfig, MedianStoppingRule};
pub use pbt::{PbtConfig, PbtReplayConfig, PopulationBasedTraining, PopulationBasedTrainingReplay};
pub use policy_log::PolicyStep;
pub use resource_changing::{
    DistributeResources, DistributeResourcesToTopJob, ResourceAllocation, ResourceChangingScheduler,
    Situation,
};

use crate::{Bundle, Config, Error, Metrics, Objective, Resources, Result, Trial, TrialStatus};

/// What a scheduler answers to a result. A [`Decision`] alone is one: `Ok(Decision::Continue.into())`.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What becomes of the trial that reported.
    pub decision: Decision,
    /// What else is to be done, also with other trials, in this order.
    pub orders: Vec<Order>,
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Answer { decision, orders: Vec::new() }
    }
}

/// What becomes of a trial after a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The trial trains on.
    Continue,
    /// The trial is saved and gives its resources back until [`Order::Unpause`] or
    /// [`choose_trial_to_run`](TrialScheduler::choose_trial_to_run).
    Pause,
    /// The trial ends.
    Stop,
    /// One of the [`orders`](Answer::orders) says what becomes of this trial.
    Noop,
}

/// One thing that a scheduler wants done. Trials are named by their ids.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there are few at a time")]
pub enum Order {
    /// End a trial that runs or is paused.
    Stop(String),
    /// A paused trial waits for resources again: it becomes pending.
    Unpause(String),
    /// Save a trial now; a paused one keeps the state that it was paused with. Later exploits of it start from this
    /// state, until the next `Save` of the same trial.
    Save(String),
    /// A trial gives up its own state and is paused with the state that the last [`Order::Save`] of `source` kept, and
    /// with other settings. Where that save failed it keeps its state and settings and is paused too.
    Exploit {
        /// The trial that changes.
        trial_id: String,
        /// The trial whose state it takes over; itself, if only its settings change.
        source: String,
        /// Its settings from now on.
        config: Config,
        /// Its tag from now on: `4_lr=0.0010@perturbed[lr=0.0012]`.
        experiment_tag: String,
        /// The line for the logs of the population, written once the trial has the state.
        log: Option<PolicyStep>,
    },
    /// A trial is saved and paused, and occupies other resources from now on.
    SetResources(String, Resources),
}

/// Stops, pauses and changes trials.
///
/// The calls for one trial: `on_trial_add`, any number of `on_trial_result`, then one of `on_trial_complete` (with its
/// last result), `on_trial_error`, or `on_trial_remove` when it ends without having run.
pub trait TrialScheduler: Send {
    /// Tells the objective of the sweep to schedulers that were given none of their own. Called once, first.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if both have one, and [`Error::Missing`] if one is needed and neither has.
    fn set_search_properties(&mut self, objective: Option<&Objective>) -> Result<()> {
        let _ = objective;
        Ok(())
    }

    /// What this scheduler compares trials by, its own objective or the sweep's; `None`: it compares nothing.
    fn objective(&self) -> Option<&Objective> {
        None
    }

    /// Tells what the sweep has altogether. Called before the first trial joins, and again when that changes.
    fn set_total_resources(&mut self, total: &Bundle) {
        let _ = total;
    }

    /// Whether a searcher may learn from the results. It may not where trials change their settings on the way: a sweep
    /// with such a scheduler and a searcher other than random or grid search is refused.
    fn works_with_searchers(&self) -> bool {
        true
    }

    /// A trial joins the sweep, pending. Its settings may still be completed here.
    ///
    /// # Errors
    /// Fails if the settings or resources of the trial do not fit this scheduler. The error ends the sweep.
    fn on_trial_add(&mut self, trial: &mut Trial) -> Result<()> {
        let _ = trial;
        Ok(())
    }

    /// `trial` reported `result`, which is not its `last_result` yet.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`] if the result lacks what this scheduler needs, and [`Error::Metric`] if that is
    /// no number. Fails if a scheduler that changes settings or resources cannot change them. The error ends the sweep.
    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Answer>;

    /// `trial` ended with `result`.
    ///
    /// # Errors
    /// Fails if the result lacks what this scheduler needs, or if the scheduler cannot change the settings of another
    /// trial. The error ends the sweep.
    fn on_trial_complete(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Vec<Order>> {
        let _ = (trial, result, trials);
        Ok(Vec::new())
    }

    /// `trial` failed for good.
    ///
    /// # Errors
    /// Fails if the scheduler cannot change the settings of another trial, as
    /// [`on_trial_remove`](TrialScheduler::on_trial_remove) does. The error ends the sweep.
    fn on_trial_error(&mut self, trial: &Trial, trials: &[Trial]) -> Result<Vec<Order>> {
        self.on_trial_remove(trial, trials)
    }

    /// `trial` was stopped before it ended, and not by this scheduler.
    ///
    /// # Errors
    /// Fails if the scheduler cannot change the settings of another trial that waited for this one: in this crate, only
    /// [`PopulationBasedTraining`] with `synch` changes settings here. The error ends the sweep.
    fn on_trial_remove(&mut self, trial: &Trial, trials: &[Trial]) -> Result<Vec<Order>> {
        let _ = (trial, trials);
        Ok(Vec::new())
    }

    /// The next trial to run among those for which `fits` says that their resources are free; its index in `trials`,
    /// which begin with the first one that has not ended.
    fn choose_trial_to_run(&self, trials: &[Trial], fits: &dyn Fn(&Trial) -> bool) -> Option<usize> {
        first_that_fits(trials, fits)
    }

    /// The sweep would stand still: nothing runs, `choose_trial_to_run` chose nothing, and no trial joins. Asked once;
    /// if the orders change nothing, the sweep cannot go on.
    ///
    /// # Errors
    /// An error ends the sweep. The schedulers of this crate never return one here.
    fn on_idle(&mut self, trials: &[Trial]) -> Result<Vec<Order>> {
        let _ = trials;
        Ok(Vec::new())
    }

    /// One line for the progress table.
    fn debug_string(&self) -> String;
}

/// The first pending trial that fits, else the first paused one.
pub(crate) fn first_that_fits(trials: &[Trial], fits: &dyn Fn(&Trial) -> bool) -> Option<usize> {
    let first = |status| trials.iter().position(|trial| trial.status == status && fits(trial));
    first(TrialStatus::Pending).or_else(|| first(TrialStatus::Paused))
}

/// Runs every trial to its end, in the order of the search.
#[derive(Clone, Copy, Debug, Default)]
pub struct FifoScheduler;

impl TrialScheduler for FifoScheduler {
    fn on_trial_result(&mut self, _: &Trial, _: &Metrics, _: &[Trial]) -> Result<Answer> {
        Ok(Decision::Continue.into())
    }

    fn debug_string(&self) -> String {
        "FIFO".into()
    }
}

fn positive(scheduler: &str, key: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::config(format!("{scheduler}.{key}"), value, "it must be above 0 and finite"))
}

fn not_negative(scheduler: &str, key: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::config(format!("{scheduler}.{key}"), value, "it must be 0 or more and finite"))
}
