//! Replay of the journal: repeats the calls to the searcher, scheduler and stopper.

use std::path::{Component, Path};

use serde_json::Value;

use super::journal::Event;
use super::sweep::Sweep;
use crate::loggers::flatten;
use crate::search::Suggestion;
use crate::{Config, Error, Result};

/// Checks that a trial's id, which names its directory, does not lead out of the sweep's directory.
///
/// # Errors
/// Returns [`Error::Experiment`] if the id leads out of `dir`, or if the trial's directory is a symbolic link.
pub(super) fn check_trial_id(dir: &Path, trial_id: &str) -> Result<()> {
    let mut parts = Path::new(trial_id).components();
    let is_name =
        matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == trial_id);
    if !is_name {
        let reason = format!(
            "its journal names the trial {trial_id:?}, which leads out of its directory: the journal was changed, so \
             begin a new sweep"
        );
        return Err(Error::experiment(dir, reason));
    }
    if dir.join(trial_id).is_symlink() {
        let reason = format!("{trial_id} in it is a symbolic link; put the trial's directory itself there");
        return Err(Error::experiment(dir, reason));
    }
    Ok(())
}

impl Sweep {
    /// Repeats the calls that belong to one line of the journal.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if the searcher or the scheduler answers differently than before, and their errors
    /// unchanged.
    pub(super) fn replay(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Experiment(_) => Ok(()),
            Event::Restored { resources, .. } => {
                self.scheduler.set_total_resources(&resources);
                self.interrupted();
                Ok(())
            }
            Event::Trial { trial_id, config, drawn, experiment_tag, resources } => {
                check_trial_id(&self.dir, &trial_id)?;
                let again = self.suggest_again(&trial_id, &drawn)?;
                let resources = resources.into_owned();
                let i = self.add(&trial_id, again, drawn.into_owned(), &experiment_tag, resources)?;
                // The scheduler may have changed the settings when the trial was added.
                self.refuse_other_settings(&trial_id, &config, &self.trials[i].config)
            }
            Event::Started { trial_id, .. } => {
                let i = self.find(&trial_id)?;
                self.started(i);
                Ok(())
            }
            Event::Adopted { trial_id, checkpoint, .. } => {
                let i = self.find(&trial_id)?;
                self.adopted(i, checkpoint);
                Ok(())
            }
            Event::KeptOwn { trial_id } => {
                let i = self.find(&trial_id)?;
                self.keep_own(i);
                Ok(())
            }
            Event::Result { trial_id, iteration, verdict, elapsed, result } => {
                let i = self.find(&trial_id)?;
                self.elapsed = elapsed;
                let repeated = self.result(i, iteration, result.into_owned(), Some(verdict))?;
                if repeated == verdict {
                    Ok(())
                } else {
                    Err(self.differs(&format!("result {iteration} of trial {trial_id}")))
                }
            }
            Event::Ended { trial_id } => {
                let i = self.find(&trial_id)?;
                self.ended(i)
            }
            Event::Idle => self.idle(),
            Event::Saved { trial_id, checkpoint, score } => {
                let i = self.find(&trial_id)?;
                self.saved(i, checkpoint, score);
                Ok(())
            }
            Event::Completed { trial_id } => {
                let i = self.find(&trial_id)?;
                self.runs[i].completed = true;
                Ok(())
            }
            Event::Failed { trial_id, message } => {
                let i = self.find(&trial_id)?;
                self.failed(i, message.into_owned());
                Ok(())
            }
            Event::GivenUp { trial_id } => {
                let i = self.find(&trial_id)?;
                self.given_up(i)
            }
            Event::Retried { trial_id, from_scratch } => {
                let i = self.find(&trial_id)?;
                self.retried(i, from_scratch);
                Ok(())
            }
            Event::Stopped { trial_id } => {
                let i = self.find(&trial_id)?;
                self.stop(i)
            }
            Event::StopAll { reason } => {
                self.stop_all = Some(reason.into_owned());
                Ok(())
            }
        }
    }

    fn differs(&self, what: &str) -> Error {
        let reason = format!(
            "the scheduler does not decide as it did about {what}; restore with the scheduler, its settings and the \
             metric that the sweep began with"
        );
        Error::experiment(&self.dir, reason)
    }

    fn suggest_again(&mut self, trial_id: &str, drawn: &Config) -> Result<Config> {
        let Suggestion::Trial { config, drawn: again } = self.searcher.suggest(trial_id)? else {
            let reason = format!(
                "the searcher has no trial {trial_id} any more; restore with the searcher, its settings, the seed and \
                 the search space that the sweep began with, and at least as many samples"
            );
            return Err(Error::experiment(&self.dir, reason));
        };
        self.refuse_other_settings(trial_id, drawn, &again.into_iter().collect())?;
        Ok(config)
    }

    fn refuse_other_settings(&self, trial_id: &str, before: &Config, now: &Config) -> Result<()> {
        let before = flatten(before);
        let now = flatten(now);
        let value = |side: &[(String, &Value)], path: &str| {
            side.iter().find(|(key, _)| key == path).map_or("absent".into(), |(_, value)| value.to_string())
        };
        let mut paths = before.iter().chain(&now).map(|(path, _)| path);
        let Some(path) = paths.find(|path| value(&before, path) != value(&now, path)) else { return Ok(()) };
        let reason = format!(
            "trial {trial_id} was drawn with `{path}` = {}, but now it is {}; restore with the search space, searcher, \
             seed and scheduler that the sweep began with, or begin a new sweep",
            value(&before, path),
            value(&now, path)
        );
        Err(Error::experiment(&self.dir, reason))
    }
}
