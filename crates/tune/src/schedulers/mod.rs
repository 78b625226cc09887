//! Schedulers: decide after each result which trials continue, and which trial runs when resources are free.
//!
//! A scheduler is a function of its settings, its seed and the calls that it has received, so its state is not saved. A
//! resumed sweep makes a new scheduler and repeats the calls from the journal. `choose_trial_to_run` changes no state,
//! so it is not repeated.

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

use crate::base::{Bundle, Config, Error, Metrics, Objective, Resources, Result, Trial, TrialStatus};

/// Answer of a scheduler to a result. A [`Decision`] alone can be converted to it: `Ok(Decision::Continue.into())`.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Decision on the trial that has reported the result.
    pub decision: Decision,
    /// Further orders, also for other trials, in the sequence in which they are carried out.
    pub orders: Vec<Order>,
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Answer { decision, orders: Vec::new() }
    }
}

/// A scheduler's decision on a trial after a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The trial continues to train.
    Continue,
    /// The trial is saved and releases its resources, until [`Order::Unpause`] or
    /// [`choose_trial_to_run`](TrialScheduler::choose_trial_to_run) restarts it.
    Pause,
    /// The trial is stopped.
    Stop,
    /// One of the [`orders`](Answer::orders) determines how this trial continues.
    Noop,
}

/// Order of a scheduler to the sweep. Trials are given by their ids.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there are few at a time")]
pub enum Order {
    /// Stops a running or paused trial.
    Stop(String),
    /// Makes a paused trial pending, so that it waits for resources again.
    Unpause(String),
    /// Saves a trial now; a paused trial keeps the state with which it was paused. Exploits of the trial use this state
    /// until the next `Save` of the same trial.
    Save(String),
    /// Replaces a trial's state by the one that the last [`Order::Save`] of `source` kept, changes its settings, and
    /// pauses it. If that save failed, the trial keeps its state and settings and is only paused.
    Exploit {
        /// Trial that changes.
        trial_id: String,
        /// Trial whose state is copied; the same trial if only its settings change.
        source: String,
        /// New settings of the trial.
        config: Config,
        /// New tag of the trial, e.g. `4_lr=0.0010@perturbed[lr=0.0012]`.
        experiment_tag: String,
        /// Line for the policy logs, written once the trial has the state; `None` writes none.
        log: Option<PolicyStep>,
    },
    /// Saves and pauses a trial, and changes its resources to the given ones.
    SetResources(String, Resources),
}

/// A scheduler, which stops, pauses and changes the trials of a sweep.
///
/// For each trial the calls are `on_trial_add`, any number of `on_trial_result`, then one of: `on_trial_complete` with
/// its last result, `on_trial_error`, or `on_trial_remove` if it was stopped without having ended.
pub trait TrialScheduler: Send {
    /// Sets the objective of the sweep, for schedulers without an objective of their own. Called once, before all other
    /// methods.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if both the sweep and the scheduler have an objective, and [`Error::Missing`] if the
    /// scheduler needs one and neither has it.
    fn set_search_properties(&mut self, objective: Option<&Objective>) -> Result<()> {
        let _ = objective;
        Ok(())
    }

    /// Returns the objective by which this scheduler compares trials, its own or the sweep's; `None` if it has none.
    fn objective(&self) -> Option<&Objective> {
        None
    }

    /// Sets the total resources of the sweep. Called before the first trial joins, and again when they change.
    fn set_total_resources(&mut self, total: &Bundle) {
        let _ = total;
    }

    /// Whether a searcher may learn from the results. False for schedulers that change the settings of running trials:
    /// a sweep with such a scheduler and a searcher other than random or grid search is refused.
    fn works_with_searchers(&self) -> bool {
        true
    }

    /// Adds a pending trial to the sweep. The scheduler may still complete its settings here.
    ///
    /// # Errors
    /// Fails if the settings or resources of the trial do not fit this scheduler. The error ends the sweep.
    fn on_trial_add(&mut self, trial: &mut Trial) -> Result<()> {
        let _ = trial;
        Ok(())
    }

    /// Decides on `trial` after it has reported `result`, which is not its `last_result` yet.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`] if the result lacks a key that this scheduler needs, and [`Error::Metric`] if
    /// the value is not a number. Fails if a scheduler that changes settings or resources cannot change them. The error
    /// ends the sweep.
    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Answer>;

    /// Called when `trial` has ended with the last result `result`.
    ///
    /// # Errors
    /// Fails if the result lacks a key that this scheduler needs, or if the scheduler cannot change the settings of
    /// another trial. The error ends the sweep.
    fn on_trial_complete(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Vec<Order>> {
        let _ = (trial, result, trials);
        Ok(Vec::new())
    }

    /// Called when `trial` has failed and is not retried.
    ///
    /// # Errors
    /// Fails like [`on_trial_remove`](TrialScheduler::on_trial_remove), if the scheduler cannot change the settings of
    /// another trial. The error ends the sweep.
    fn on_trial_error(&mut self, trial: &Trial, trials: &[Trial]) -> Result<Vec<Order>> {
        self.on_trial_remove(trial, trials)
    }

    /// Called when `trial` was stopped before it ended, and not by this scheduler.
    ///
    /// # Errors
    /// Fails if the scheduler cannot change the settings of another trial that waited for this one. In this crate, only
    /// [`PopulationBasedTraining`] with `synch` changes settings here. The error ends the sweep.
    fn on_trial_remove(&mut self, trial: &Trial, trials: &[Trial]) -> Result<Vec<Order>> {
        let _ = (trial, trials);
        Ok(Vec::new())
    }

    /// Returns the index in `trials` of the next trial to run, among those for which `fits` says that their resources
    /// are free. `trials` begins with the first trial that has not ended.
    fn choose_trial_to_run(&self, trials: &[Trial], fits: &dyn Fn(&Trial) -> bool) -> Option<usize> {
        first_that_fits(trials, fits)
    }

    /// Called when the sweep stands still: no trial runs, `choose_trial_to_run` returned `None`, and no trial joins. It
    /// is called once; if its orders change nothing, the sweep cannot continue.
    ///
    /// # Errors
    /// An error ends the sweep. The schedulers of this crate never return one here.
    fn on_idle(&mut self, trials: &[Trial]) -> Result<Vec<Order>> {
        let _ = trials;
        Ok(Vec::new())
    }

    /// Returns one line for the progress table.
    fn debug_string(&self) -> String;
}

/// Returns the index of the first pending trial that fits, or else of the first paused one.
pub(crate) fn first_that_fits(trials: &[Trial], fits: &dyn Fn(&Trial) -> bool) -> Option<usize> {
    let first = |status| trials.iter().position(|trial| trial.status == status && fits(trial));
    first(TrialStatus::Pending).or_else(|| first(TrialStatus::Paused))
}

/// First in, first out: runs every trial to its end, in the order in which the trials were suggested.
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

/// Refuses a setting that is not finite and above 0.
fn positive(scheduler: &str, key: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::config(format!("{scheduler}.{key}"), value, "it must be above 0 and finite"))
}

/// Refuses a setting that is not finite and at least 0.
fn not_negative(scheduler: &str, key: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::config(format!("{scheduler}.{key}"), value, "it must be 0 or more and finite"))
}
