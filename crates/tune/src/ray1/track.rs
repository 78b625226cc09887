//! `tune.track` of Ray 0.8: [`log`], [`trial_dir`], [`trial_name`], [`trial_id`] and [`StatusReporter`], over
//! [`session`].

use std::path::PathBuf;
use std::rc::Rc;

use serde_json::Value;

use crate::base::{Error, Result};
use crate::functions::session::{self, Session};

/// Reports metrics through [`session::report`], without a checkpoint.
///
/// # Errors
/// Fails outside a trial. Returns [`Error::TrialStopped`] if the trial must end; return it from the function, e.g. with `?`.
/// Returns [`Error::Metric`] if `metrics` is neither an object nor a finite number.
pub fn log(metrics: impl Into<Value>) -> Result<()> {
    current()?;
    session::report(metrics, None)
}

/// Returns the directory where the trial's results are saved.
///
/// # Errors
/// Fails outside a trial.
pub fn trial_dir() -> Result<PathBuf> {
    Ok(current()?.context.logdir.clone())
}

/// Returns the trial's name.
///
/// # Errors
/// Fails outside a trial.
pub fn trial_name() -> Result<String> {
    Ok(current()?.context.trial_name.clone())
}

/// Returns the trial's id.
///
/// # Errors
/// Fails outside a trial.
pub fn trial_id() -> Result<String> {
    Ok(current()?.context.trial_id.clone())
}

fn current() -> Result<Rc<Session>> {
    session::current().ok_or_else(|| {
        Error::other(
            "no trial runs here: call this in a function that a `Tuner` or a `Driver` runs, in its thread",
        )
    })
}

/// Reporter that is passed as an argument to a function trainable, as in Ray 0.8.
#[derive(Clone, Debug)]
pub struct StatusReporter {
    trial_id: String,
    trial_name: String,
    logdir: PathBuf,
}

impl StatusReporter {
    pub(crate) fn new() -> Result<Self> {
        let session = current()?;
        let context = &session.context;
        Ok(StatusReporter {
            trial_id: context.trial_id.clone(),
            trial_name: context.trial_name.clone(),
            logdir: context.logdir.clone(),
        })
    }

    /// Reports metrics through [`session::report`], without a checkpoint. `done: true` among the metrics ends the trial.
    ///
    /// # Errors
    /// Returns [`Error::TrialStopped`] if the trial must end; return it from the function, e.g. with `?`. Returns
    /// [`Error::Metric`] if `metrics` is neither an object nor a finite number.
    pub fn report(&self, metrics: impl Into<Value>) -> Result<()> {
        session::report(metrics, None)
    }

    /// Returns the trial's id.
    pub fn trial_id(&self) -> &str {
        &self.trial_id
    }

    /// Returns the trial's name.
    pub fn trial_name(&self) -> &str {
        &self.trial_name
    }

    /// Returns the trial's directory.
    pub fn logdir(&self) -> &std::path::Path {
        &self.logdir
    }
}
