//! Summary of a sweep's trials, read from its journal without a tuner.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::journal::{self, Event, check_trial_id};
use crate::base::{Error, Metrics, Objective, Result, metric};

/// Summary of a sweep's trials, read from its directory.
#[derive(Clone, Debug)]
pub struct Standings {
    dir: PathBuf,
    objective: Option<Objective>,
    trials: Vec<Standing>,
}

#[derive(Clone, Debug)]
struct Standing {
    trial_id: String,
    has_ended: bool,
    last_result: Option<Metrics>,
}

impl Standings {
    /// Reads the journal in `dir`. Returns `None` if the directory has no journal.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if the journal is damaged, has another format version, or names a trial outside the
    /// directory. Returns [`Error::Io`] if the journal cannot be read.
    pub fn read(dir: &Path) -> Result<Option<Standings>> {
        let path = dir.join(journal::FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let (header, events, _) = journal::read(&path)?;
        let mut trials: Vec<Standing> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for event in events {
            match event {
                Event::Trial { trial_id, .. } => {
                    check_trial_id(dir, &trial_id)?;
                    let trial_id = trial_id.into_owned();
                    places.insert(trial_id.clone(), trials.len());
                    trials.push(Standing { trial_id, has_ended: false, last_result: None });
                }
                Event::Result { trial_id, result, .. } => {
                    if let Some(place) = places.get(&*trial_id) {
                        trials[*place].last_result = Some(result.into_owned());
                    }
                }
                Event::Completed { trial_id } => {
                    if let Some(place) = places.get(&*trial_id) {
                        trials[*place].has_ended = true;
                    }
                }
                _ => {}
            }
        }
        // A sweep of an earlier version may have a metric without a mode.
        let objective = Objective::of_pair(header.metric, header.mode).ok().flatten();
        Ok(Some(Standings { dir: dir.into(), objective, trials }))
    }

    /// Returns the directory of the trial whose last result has the best value; if several are equal, the first.
    ///
    /// A sweep without an objective is judged by `otherwise`.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if there is no objective at all, or if no trial has a number for the
    /// metric.
    pub fn best(&self, otherwise: Option<&Objective>) -> Result<PathBuf> {
        let Some(objective) = self.objective.as_ref().or(otherwise) else {
            let reason = "this sweep has no metric and mode that say which trial is best; name one of its trials instead";
            return Err(Error::experiment(&self.dir, reason));
        };
        let scores = self.trials.iter().map(|trial| objective.finite_score(trial.last_result.as_ref()?));
        let best = metric::best(scores).map(|best| self.dir.join(&self.trials[best].trial_id));
        best.ok_or_else(|| {
            Error::experiment(&self.dir, format!("no trial has a number for `{}` yet", objective.metric))
        })
    }

    /// Whether a trial has completed; `None` if the sweep has no trial of that id.
    pub fn has_ended(&self, trial_id: &str) -> Option<bool> {
        self.trials.iter().find(|trial| trial.trial_id == trial_id).map(|trial| trial.has_ended)
    }
}
