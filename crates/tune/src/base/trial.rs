//! Trials, as seen by searchers, schedulers, stoppers and callbacks.

use serde::{Deserialize, Serialize};

use crate::base::{Config, Metrics, Resources};

/// Status of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TrialStatus {
    /// The trial waits for resources.
    Pending,
    /// The trial is training.
    Running,
    /// The trial is paused: it has a checkpoint and occupies no resources.
    Paused,
    /// The trial has ended, by itself or because it was stopped.
    Terminated,
    /// The trial failed more often than allowed.
    Error,
}

impl TrialStatus {
    /// Whether the trial has ended, successfully or by failing.
    pub fn is_finished(self) -> bool {
        matches!(self, TrialStatus::Terminated | TrialStatus::Error)
    }
}

/// A trial: settings drawn from the search space, its status, and its last result.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Id of the trial: five hexadecimal digits of the experiment and the number of the trial, such as `3f2a1_00004`.
    pub trial_id: String,
    /// Settings of the trial; a scheduler may have changed them.
    pub config: Config,
    /// Number of the trial and its drawn values: `4_clip_param=0.3000,lr=0.0010`.
    pub experiment_tag: String,
    /// Status of the trial.
    pub status: TrialStatus,
    /// Whether the scheduler ended the trial before its own end.
    pub stopped_early: bool,
    /// Resources that the trial occupies while it runs.
    pub resources: Resources,
    /// Last result of the trial; `None` before the first.
    pub last_result: Option<Metrics>,
    /// Settings with which the last result was trained, if a scheduler has changed them since.
    pub earlier_config: Option<Config>,
}

impl Trial {
    /// Settings with which the last result was trained; before the first result, those of the trial.
    pub fn trained_config(&self) -> &Config {
        self.earlier_config.as_ref().unwrap_or(&self.config)
    }
}

/// Whether lower or higher values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Lower values are better.
    Min,
    /// Higher values are better.
    Max,
}

impl Mode {
    /// Returns the name of the mode, `min` or `max`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Min => "min",
            Mode::Max => "max",
        }
    }

    /// Returns `value`, negated for [`Mode::Min`], so that a higher score is better.
    pub fn score(self, value: f64) -> f64 {
        match self {
            Mode::Min => -value,
            Mode::Max => value,
        }
    }
}
