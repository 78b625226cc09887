//! Stoppers: decide when a trial, or the whole sweep, ends.
//!
//! The decisions of a stopper depend only on its settings and the calls made to it. A resumed sweep makes new stoppers and
//! repeats the calls.

mod by_name;
mod criteria;
mod plateau;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::base::{Metrics, Result};

pub use by_name::{from_config, register};
pub use criteria::{Met, StoppingCriteria};
pub use plateau::{
    ExperimentPlateauConfig, ExperimentPlateauStopper, TrialPlateauConfig, TrialPlateauStopper,
};

/// Decides when a trial, or the whole sweep, ends.
pub trait Stopper: Send {
    /// Returns whether the trial ends after this result. Called before the scheduler.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`](crate::Error::MissingMetric) if the result lacks a metric that this stopper needs,
    /// and [`Error::Metric`](crate::Error::Metric) if the metric is not a number.
    fn should_stop(&mut self, trial_id: &str, result: &Metrics) -> Result<bool>;

    /// Returns whether the whole sweep ends: all trials end, and no new ones start. Called after each event. `elapsed` is
    /// the time that the sweep has run, including the time before a resume. Returns false by default.
    fn stop_all(&self, elapsed: Duration) -> bool {
        let _ = elapsed;
        false
    }
}

/// Never stops anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopStopper;

impl Stopper for NoopStopper {
    fn should_stop(&mut self, _: &str, _: &Metrics) -> Result<bool> {
        Ok(false)
    }
}

/// Ends a trial after a fixed number of results.
#[derive(Clone, Debug)]
pub struct MaximumIterationStopper {
    max_iter: u64,
    results: HashMap<String, u64>,
}

impl MaximumIterationStopper {
    /// Ends each trial after `max_iter` results. 0 is treated as 1, since stoppers are asked only after a result.
    pub fn new(max_iter: u64) -> Self {
        Self { max_iter, results: HashMap::new() }
    }
}

impl Stopper for MaximumIterationStopper {
    fn should_stop(&mut self, trial_id: &str, _: &Metrics) -> Result<bool> {
        let results = self.results.entry(trial_id.to_string()).or_default();
        *results += 1;
        Ok(*results >= self.max_iter)
    }
}

/// Ends the sweep after a fixed time, which includes the time before a resume.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutStopper {
    timeout: Duration,
}

impl TimeoutStopper {
    /// Ends the sweep after `timeout`, like Ray's `time_budget_s`.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout }
    }
}

impl Stopper for TimeoutStopper {
    fn should_stop(&mut self, _: &str, _: &Metrics) -> Result<bool> {
        Ok(false)
    }

    fn stop_all(&self, elapsed: Duration) -> bool {
        elapsed >= self.timeout
    }
}

/// Stops as soon as any of several stoppers does. Every stopper sees every result. (Ray does not ask the stoppers after the
/// first that stops, so their counts depend on their order.)
#[derive(Default)]
pub struct CombinedStopper {
    stoppers: Vec<Box<dyn Stopper>>,
}

impl CombinedStopper {
    /// Combines `stoppers`. An empty list never stops anything.
    pub fn new(stoppers: Vec<Box<dyn Stopper>>) -> Self {
        Self { stoppers }
    }
}

impl fmt::Debug for CombinedStopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CombinedStopper of {}", self.stoppers.len())
    }
}

impl Stopper for CombinedStopper {
    fn should_stop(&mut self, trial_id: &str, result: &Metrics) -> Result<bool> {
        self.stoppers
            .iter_mut()
            .try_fold(false, |stop, stopper| Ok(stopper.should_stop(trial_id, result)? || stop))
    }

    fn stop_all(&self, elapsed: Duration) -> bool {
        self.stoppers.iter().any(|stopper| stopper.stop_all(elapsed))
    }
}

/// Ends a trial when a function returns true: `FunctionStopper::new(|trial_id, result| ...)`.
pub struct FunctionStopper<F> {
    function: F,
}

impl<F: FnMut(&str, &Metrics) -> bool + Send> FunctionStopper<F> {
    /// Creates a stopper that calls `function` with the trial's id and its result. The function should depend on nothing
    /// else, so that a resumed sweep makes the same decisions.
    pub fn new(function: F) -> Self {
        Self { function }
    }
}

impl<F> fmt::Debug for FunctionStopper<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FunctionStopper(..)")
    }
}

impl<F: FnMut(&str, &Metrics) -> bool + Send> Stopper for FunctionStopper<F> {
    fn should_stop(&mut self, trial_id: &str, result: &Metrics) -> Result<bool> {
        Ok((self.function)(trial_id, result))
    }
}
