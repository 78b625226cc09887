//! What the journal of a sweep says about its trials, read without a tuner.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::journal::{self, Event};
use super::replay::check_trial_id;
use crate::{Error, Metrics, Mode, Result, metric};

/// The trials of a sweep as its directory has them.
#[derive(Clone, Debug)]
pub struct Standings {
    dir: PathBuf,
    metric: Option<String>,
    mode: Option<Mode>,
    trials: Vec<Standing>,
}

#[derive(Clone, Debug)]
struct Standing {
    trial_id: String,
    has_ended: bool,
    last_result: Option<Metrics>,
}

impl Standings {
    /// Reads the journal in `dir`; `None`: the directory is no sweep.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if the journal is damaged, is of another version of the format, or names a trial
    /// outside of the directory. Returns [`Error::Io`] if the journal cannot be read.
    pub fn read(dir: &Path) -> Result<Option<Standings>> {
        let path = dir.join(journal::FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let (header, events, _) = journal::read(&path)?;
        let mut trials: Vec<Standing> = Vec::new();
        for event in events {
            let found = |trials: &mut Vec<Standing>, trial_id: &str, change: &dyn Fn(&mut Standing)| {
                trials.iter_mut().filter(|trial| trial.trial_id == trial_id).for_each(change);
            };
            match event {
                Event::Trial { trial_id, .. } => {
                    check_trial_id(dir, &trial_id)?;
                    let trial_id = trial_id.into_owned();
                    trials.push(Standing { trial_id, has_ended: false, last_result: None });
                }
                Event::Result { trial_id, result, .. } => {
                    found(&mut trials, &trial_id, &|trial| trial.last_result = Some((*result).clone()));
                }
                Event::Completed { trial_id } => {
                    found(&mut trials, &trial_id, &|trial| trial.has_ended = true);
                }
                _ => {}
            }
        }
        let (metric, mode) = (header.metric, header.mode);
        Ok(Some(Standings { dir: dir.into(), metric, mode, trials }))
    }

    /// The directory of the trial whose last result has the best value; of equal ones the first.
    ///
    /// A sweep without a metric and mode is judged by `metric` and `mode`.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if there is no metric or mode anywhere, or if no trial has a number for the
    /// metric.
    pub fn best(&self, metric: Option<&str>, mode: Option<Mode>) -> Result<PathBuf> {
        let metric = self.metric.as_deref().or(metric);
        let (Some(metric), Some(mode)) = (metric, self.mode.or(mode)) else {
            let reason = "this sweep has no metric and mode that say which trial is best; name one of its trials instead";
            return Err(Error::experiment(&self.dir, reason));
        };
        let mut best: Option<(f64, &str)> = None;
        for trial in &self.trials {
            let value = trial.last_result.as_ref().and_then(|result| metric::find(result, metric));
            let value = value.and_then(Value::as_f64).filter(|value| value.is_finite());
            let Some(score) = value.map(|value| mode.score(value)) else { continue };
            if best.is_none_or(|(best, _)| score > best) {
                best = Some((score, &trial.trial_id));
            }
        }
        match best {
            Some((_, trial_id)) => Ok(self.dir.join(trial_id)),
            None => Err(Error::experiment(&self.dir, format!("no trial has a number for `{metric}` yet"))),
        }
    }

    /// Whether nothing is left to do for a trial; `None`: the sweep has no trial of that id.
    pub fn has_ended(&self, trial_id: &str) -> Option<bool> {
        self.trials.iter().find(|trial| trial.trial_id == trial_id).map(|trial| trial.has_ended)
    }
}
