//! Who says that a trial, or the whole sweep, has trained enough.
//!
//! Like schedulers, stoppers are functions of their settings and the calls that they have seen: a resumed sweep makes
//! new ones and repeats the calls.

use std::time::Duration;

use crate::{Metrics, Result};

/// Ends trials, or the sweep.
pub trait Stopper: Send {
    /// Whether this trial ends with this result. Asked before the scheduler.
    ///
    /// # Errors
    /// A result without what this stopper needs.
    fn should_stop(&mut self, trial_id: &str, result: &Metrics) -> Result<bool>;

    /// Whether every trial ends and no other starts. `elapsed`: how long the sweep has run, the time before a resume
    /// included. Asked after each event.
    fn stop_all(&self, elapsed: Duration) -> bool {
        let _ = elapsed;
        false
    }
}
