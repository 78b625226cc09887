//! A trial of a sweep, as searchers, schedulers, stoppers and callbacks see it.

use serde::{Deserialize, Serialize};

use crate::{Config, Metrics, Resources};

/// Whether a trial waits, runs, is paused or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TrialStatus {
    /// Waits for its resources.
    Pending,
    /// Trains.
    Running,
    /// Holds a checkpoint and no resources.
    Paused,
    /// Ended, by itself or because it was stopped.
    Terminated,
    /// Failed more often than allowed.
    Error,
}

impl TrialStatus {
    /// Whether there is nothing more to come: terminated or failed.
    pub fn is_finished(self) -> bool {
        matches!(self, TrialStatus::Terminated | TrialStatus::Error)
    }
}

/// One trial: settings drawn from the search space, and how far it is.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Five hexadecimal digits of the experiment and the number of the trial: `3f2a1_00004`.
    pub trial_id: String,
    /// The settings; a scheduler may have changed them.
    pub config: Config,
    /// The number of the trial and the values that were drawn: `4_lr=0.0010,clip_param=0.3`.
    pub experiment_tag: String,
    /// Whether the trial waits, runs, is paused or has ended.
    pub status: TrialStatus,
    /// The resources that the trial occupies while it runs.
    pub resources: Resources,
    /// The newest result.
    pub last_result: Option<Metrics>,
}

/// Whether high or low values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Low ones.
    Min,
    /// High ones.
    Max,
}

impl Mode {
    /// The name of the mode: `min` or `max`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Min => "min",
            Mode::Max => "max",
        }
    }

    /// The value, negated for [`Mode::Min`], so that higher is better.
    pub fn score(self, value: f64) -> f64 {
        match self {
            Mode::Min => -value,
            Mode::Max => value,
        }
    }
}
