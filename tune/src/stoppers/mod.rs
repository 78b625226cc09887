//! Stoppers say that a trial, or the whole sweep, has trained enough.
//!
//! Like schedulers, stoppers are functions of their settings and the calls that they have seen: a resumed sweep makes
//! new ones and repeats the calls.

mod by_name;
mod criteria;
mod plateau;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::{Metrics, Result};

pub use by_name::{from_config, register};
pub use criteria::{Met, StoppingCriteria};
pub use plateau::{
    ExperimentPlateauConfig, ExperimentPlateauStopper, TrialPlateauConfig, TrialPlateauStopper,
};

/// Says when a trial ends, or the whole sweep.
pub trait Stopper: Send {
    /// Whether this trial ends with this result. Asked before the scheduler.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`](crate::Error::MissingMetric) if the result lacks what this stopper needs, and
    /// [`Error::Metric`](crate::Error::Metric) if that is no number.
    fn should_stop(&mut self, trial_id: &str, result: &Metrics) -> Result<bool>;

    /// Whether every trial ends and no other starts. `elapsed`: how long the sweep has run, the time before a resume
    /// included. Asked after each event.
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

/// Ends a trial with its `max_iter`th result.
#[derive(Clone, Debug)]
pub struct MaximumIterationStopper {
    max_iter: u64,
    results: HashMap<String, u64>,
}

impl MaximumIterationStopper {
    /// Ends each trial with its `max_iter`th result. 0 means 1, since a trial is asked about with its first result.
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

/// Ends the sweep once it has run for so long, the time before a resume included.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutStopper {
    timeout: Duration,
}

impl TimeoutStopper {
    /// Ends the sweep after `timeout`: Ray's `time_budget_s`.
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

/// Stops when any of several stoppers does. Each sees every result (Ray skips those after the first that stops, so
/// their counts depend on the order).
#[derive(Default)]
pub struct CombinedStopper {
    stoppers: Vec<Box<dyn Stopper>>,
}

impl CombinedStopper {
    /// Combines these stoppers. Without any of them it never stops.
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

/// Ends trials as a function says: `FunctionStopper::new(|trial_id, result| ...)`.
pub struct FunctionStopper<F> {
    function: F,
}

impl<F: FnMut(&str, &Metrics) -> bool + Send> FunctionStopper<F> {
    /// A stopper that asks `function`. The function gets the trial's id and its result. To be the same after a resume, it must depend on nothing else.
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
