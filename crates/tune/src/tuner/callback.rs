//! Callbacks, which are called at events of a sweep.

use std::path::Path;

use crate::base::{Metrics, Result, Trial};

/// Methods that a sweep calls at its events, named as in Ray Tune. They are called in order, from the thread that called
/// `fit`. An error returned by a method ends the sweep.
///
/// After a restore, only new events are reported.
pub trait Callback: Send {
    /// Called before the first trial starts. `total_num_samples` is the number of trials; `None` means no limit.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn setup(&mut self, experiment_dir: &Path, total_num_samples: Option<u64>) -> Result<()> {
        let _ = (experiment_dir, total_num_samples);
        Ok(())
    }

    /// Called at the beginning of each step, before trials are started and the next report is awaited.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_step_begin(&mut self, trials: &[Trial]) -> Result<()> {
        let _ = trials;
        Ok(())
    }

    /// Called at the end of each step: after a report was processed, or after 0.1 s without a report.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_step_end(&mut self, trials: &[Trial]) -> Result<()> {
        let _ = trials;
        Ok(())
    }

    /// Called when a trial got its resources and starts.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_start(&mut self, trials: &[Trial], trial: &Trial) -> Result<()> {
        let _ = (trials, trial);
        Ok(())
    }

    /// Called when a trial starts from a checkpoint, after `on_trial_start`.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_restore(&mut self, trials: &[Trial], trial: &Trial) -> Result<()> {
        let _ = (trials, trial);
        Ok(())
    }

    /// Called when a trial reported a result.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_result(&mut self, trials: &[Trial], trial: &Trial, result: &Metrics) -> Result<()> {
        let _ = (trials, trial, result);
        Ok(())
    }

    /// Called when a trial wrote a checkpoint to the directory `checkpoint`.
    ///
    /// # Errors
    /// An error ends the sweep.
    #[doc(alias = "on_trial_save")]
    fn on_checkpoint(&mut self, trials: &[Trial], trial: &Trial, checkpoint: &Path) -> Result<()> {
        let _ = (trials, trial, checkpoint);
        Ok(())
    }

    /// Called when a trial has ended without failing and nothing is left to do for it.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_complete(&mut self, trials: &[Trial], trial: &Trial) -> Result<()> {
        let _ = (trials, trial);
        Ok(())
    }

    /// Called when a trial failed and will be tried again.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_recover(&mut self, trials: &[Trial], trial: &Trial, message: &str) -> Result<()> {
        let _ = (trials, trial, message);
        Ok(())
    }

    /// Called when a trial failed and will not be tried again.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_error(&mut self, trials: &[Trial], trial: &Trial, message: &str) -> Result<()> {
        let _ = (trials, trial, message);
        Ok(())
    }

    /// Called once at the end, when no trial runs any more.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_experiment_end(&mut self, trials: &[Trial]) -> Result<()> {
        let _ = trials;
        Ok(())
    }
}
