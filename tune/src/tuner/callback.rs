//! Hooks into a sweep.

use std::path::Path;

use crate::{Metrics, Result, Trial};

/// A callback is told what happens in a sweep, by Ray's names. Calls come from the thread of `fit`, in order; what a
/// callback returns as an error ends the sweep.
///
/// After a restore, only what happens from then on is told.
pub trait Callback: Send {
    /// Called before the first trial; `total_num_samples` is how many trials there will be (`None`: no end).
    ///
    /// # Errors
    /// An error ends the sweep.
    fn setup(&mut self, experiment_dir: &Path, total_num_samples: Option<u64>) -> Result<()> {
        let _ = (experiment_dir, total_num_samples);
        Ok(())
    }

    /// Called before trials are started and the next report is waited for.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_step_begin(&mut self, trials: &[Trial]) -> Result<()> {
        let _ = trials;
        Ok(())
    }

    /// Called after a report was dealt with, or after a tenth of a second without one.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_step_end(&mut self, trials: &[Trial]) -> Result<()> {
        let _ = trials;
        Ok(())
    }

    /// A trial got its resources.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_start(&mut self, trials: &[Trial], trial: &Trial) -> Result<()> {
        let _ = (trials, trial);
        Ok(())
    }

    /// A trial goes on from a checkpoint.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_restore(&mut self, trials: &[Trial], trial: &Trial) -> Result<()> {
        let _ = (trials, trial);
        Ok(())
    }

    /// A trial reported.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_result(&mut self, trials: &[Trial], trial: &Trial, result: &Metrics) -> Result<()> {
        let _ = (trials, trial, result);
        Ok(())
    }

    /// A trial wrote the checkpoint at `checkpoint`.
    ///
    /// # Errors
    /// An error ends the sweep.
    #[doc(alias = "on_trial_save")]
    fn on_checkpoint(&mut self, trials: &[Trial], trial: &Trial, checkpoint: &Path) -> Result<()> {
        let _ = (trials, trial, checkpoint);
        Ok(())
    }

    /// A trial ended, all done.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_complete(&mut self, trials: &[Trial], trial: &Trial) -> Result<()> {
        let _ = (trials, trial);
        Ok(())
    }

    /// A trial failed and is tried again.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_recover(&mut self, trials: &[Trial], trial: &Trial, message: &str) -> Result<()> {
        let _ = (trials, trial, message);
        Ok(())
    }

    /// A trial failed for good.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_trial_error(&mut self, trials: &[Trial], trial: &Trial, message: &str) -> Result<()> {
        let _ = (trials, trial, message);
        Ok(())
    }

    /// Nothing runs any more.
    ///
    /// # Errors
    /// An error ends the sweep.
    fn on_experiment_end(&mut self, trials: &[Trial]) -> Result<()> {
        let _ = trials;
        Ok(())
    }
}
