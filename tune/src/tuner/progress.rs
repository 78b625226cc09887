//! What is shown while a sweep runs.
use std::path::Path;
use crate::schedulers::TrialScheduler;
use crate::{Metrics, Trial};

pub(super) struct Progress { pub(super) verbose: u8 }

impl Progress {
    pub(super) fn say(&mut self, text: &str) { if self.verbose > 0 { eprintln!("{text}"); } }
    pub(super) fn tick(&mut self, _: &[Trial], _: &dyn TrialScheduler) {}
    pub(super) fn end(&mut self, _: &[Trial], _: &dyn TrialScheduler) {}
    pub(super) fn result(&mut self, _: &Trial, _: &Metrics) {}
    pub(super) fn failure(&mut self, trial: &Trial, _dir: &Path, message: &str, _again: bool) {
        self.say(&format!("trial {} failed: {message}", trial.trial_id));
    }
}
