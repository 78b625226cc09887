//! What happens when a sweep is restored, in order:
//!
//! 1. [`Tuner::restore_with`] finds the sweep's directory, locks and reads its journal, and refuses a tuner that does not fit.
//!    From a storage it downloads the files that the local directory lacks, except checkpoints.
//! 2. [`Sweep::replay`] repeats the calls of each line of the journal to a new searcher, scheduler and stopper, so that these
//!    come to the same state. An answer that differs from the journal's ends the restore.
//! 3. The line `restored` is appended. Trials that were running become pending, because there are no actors.
//! 4. [`Control::choose_what_goes_on`] retries failed trials, or stops unfinished ones, as [`Restore`] says.
//! 5. [`Control::complete_what_was_decided`] compares checkpoints with the files that exist, and deletes surplus ones.
//!    Trials that were stopped without their last checkpoint are trained up to it again.
//! 6. The control loop runs as in a new sweep. Each trial starts from its newest intact checkpoint, and results up to the last
//!    one in the journal are trained again but not reported again.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::control::Control;
use super::journal::{Event, Header, Journal, check_trial_id};
use super::life::State;
use super::settings::Restore;
use super::stored_sweep::StoredSweep;
use super::sweep::Sweep;
use super::{ExperimentFile, ResultGrid, Tuner, absolute, fill, stored_sweep};
use crate::base::metric::DEFAULT_METRIC;
use crate::base::{Config, Error, Result, TrialStatus, flatten};
use crate::search::Suggestion;
use crate::{checkpoint, storage};

impl Tuner {
    /// Continues the sweep in `dir`, a directory or a URL. This tuner must have the settings of the one that began the
    /// sweep. A larger number of samples and different stop conditions, limits and failure settings are allowed; settings
    /// that would have drawn different trials are refused.
    ///
    /// Unfinished trials get the resources that their trainable asks for now, unless a scheduler changed them.
    ///
    /// If `dir` is a URL, the files on the storage are sufficient. If the local working directory still exists and has later
    /// results, these are used and uploaded. `dir` may also be that working directory, with the same effect. Checkpoints are
    /// downloaded when their trials start from them.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if `dir` is not a sweep, if another process runs it, if its journal is damaged, or if
    /// the sweep would continue differently than it began. Otherwise fails in the same cases as [`fit`](Tuner::fit).
    pub fn restore(self, dir: impl AsRef<Path>, which: Restore) -> Result<ResultGrid> {
        self.restore_with(dir.as_ref(), which, None)
    }

    /// Does the same as [`restore`](Tuner::restore), and writes `file` beside the journal after it has checked that this
    /// tuner fits the sweep.
    ///
    /// # Errors
    /// Fails in the same cases as [`restore`](Tuner::restore).
    pub fn restore_with(
        self,
        place: &Path,
        which: Restore,
        file: Option<ExperimentFile>,
    ) -> Result<ResultGrid> {
        self.check()?;
        let (dir, remote) = match stored_sweep::origin(place) {
            Some(url) => {
                let dir = match storage::scheme(place) {
                    Some(_) => storage::work_dir(&url)?,
                    None => stored_sweep::work_dir_of(&url, &absolute(place)?)?,
                };
                let remote = StoredSweep::resume(&url, &dir, &self.run_config.sync_config)?;
                (dir, Some(remote))
            }
            None => (absolute(place)?, None),
        };
        let (mut journal, header, events) = Journal::restore(&dir)?;
        check_trial_id(&dir, &format!("{}_00000", header.prefix))?;
        self.refuse_other_sweep(&dir, &header)?;
        if self.run_config.log_results && remote.as_ref().is_some_and(|remote| remote.is_fresh) {
            fill::fill(&dir, &events)?;
        }
        file.as_ref().map_or(Ok(()), |file| file.write(&dir))?;
        journal.keep(file);
        let executor = self.new_executor()?;
        let pool = self.pool(&*executor)?;
        self.run_sweep(dir, header, journal, (executor, pool), remote, Some((events, which)))
    }

    fn refuse_other_sweep(&self, dir: &Path, header: &Header) -> Result<()> {
        let none = || "none".to_string();
        let now = self.tune_config.objective.as_ref();
        let now_metric = now.map(|objective| objective.metric.clone());
        let now_mode = now.map(|objective| objective.mode);
        // Earlier versions wrote a mode without a metric, or a metric without a mode.
        let metric = header.metric.clone().or_else(|| header.mode.map(|_| DEFAULT_METRIC.into()));
        let mode = header.mode.or(now_mode.filter(|_| metric.is_some()));
        let mode_name = |mode: Option<crate::base::Mode>| mode.map_or_else(none, |mode| mode.name().into());
        let compared = [
            ("trainable", header.trainable.clone(), self.trainable.name().to_string()),
            ("metric", metric.unwrap_or_else(none), now_metric.unwrap_or_else(none)),
            ("mode", mode_name(mode), mode_name(now_mode)),
        ];
        for (what, before, after) in compared {
            if before != after {
                let reason = format!("its {what} is {before}, but it is to be restored with {after}");
                return Err(Error::experiment(dir, reason));
            }
        }
        Ok(())
    }
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
                self.completed(i);
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

impl Control {
    /// Decides, after a replay, which of the failed trials and which of the unfinished ones continue.
    pub(super) fn choose_what_goes_on(&mut self, which: Restore) -> Result<()> {
        // If the whole sweep would stop again at once, failed trials are not retried.
        let retries = (which.resume_errored || which.restart_errored)
            && (self.sweep.stop_all.is_none() || self.reason_to_stop_all(self.sweep.elapsed).is_none());
        for i in 0..self.sweep.trials.len() {
            let trial_id = self.id(i);
            match self.sweep.trials[i].status {
                TrialStatus::Error if retries => {
                    let from_scratch = which.restart_errored;
                    self.log(&Event::Retried { trial_id: trial_id.into(), from_scratch })?;
                    self.sweep.retried(i, from_scratch);
                }
                TrialStatus::Pending | TrialStatus::Running | TrialStatus::Paused
                    if !which.resume_unfinished =>
                {
                    self.log(&Event::Stopped { trial_id: trial_id.into() })?;
                    self.sweep.stop(i)?;
                }
                _ => {}
            }
            self.ask_again(i)?;
        }
        Ok(())
    }

    /// Updates, on restoring, the resources of an unfinished trial to those that the trainable asks for now, unless a
    /// scheduler changed them.
    fn ask_again(&mut self, i: usize) -> Result<()> {
        let trial = &self.sweep.trials[i];
        if trial.status.is_finished() || trial.resources != self.sweep.runs[i].requested {
            return Ok(());
        }
        let resources = self.resources(&trial.config)?;
        if resources != trial.resources {
            self.sweep.trials[i].resources = resources;
            self.refuse_what_never_fits(&self.sweep.trials[i])?;
        }
        Ok(())
    }

    /// Completes, after a replay, what was decided but not yet done.
    pub(super) fn complete_what_was_decided(&mut self) -> Result<()> {
        if self.sweep.stop_all.is_some() {
            self.stop_open_trials()?;
        }
        self.sweep.released.clear();
        let mut there = self.remote.as_ref().map(StoredSweep::stored_iterations).unwrap_or_default();
        for i in 0..self.sweep.trials.len() {
            let there = there.remove(&self.sweep.runs[i].dir).unwrap_or_default();
            // A later save would delete unfinished files, but a trial that has ended does not save again.
            checkpoint::clean_up(&self.sweep.runs[i].dir);
            self.restore_checkpoints(i, &there)?;
            self.unsaved.bytes += self.sweep.runs[i].checkpoints.bytes();
            if self.sweep.runs[i].state == State::Ending {
                self.sweep.released.push(i);
            }
        }
        for i in 0..self.sweep.trials.len() {
            self.delete_surplus(i)?;
        }
        Ok(())
    }

    /// Brings a trial's checkpoints in line with the files, after a replay. Forgets checkpoints that exist neither locally
    /// nor on the storage. If only some checkpoints are kept, deletes those that the journal does not mention: they were
    /// written just before the driver was killed, and no trial starts from them. `there` has the iterations of the trial's
    /// checkpoints on the storage.
    fn restore_checkpoints(&mut self, i: usize, there: &[u64]) -> Result<()> {
        let run = &mut self.sweep.runs[i];
        let dir = run.dir.clone();
        let is_gone = |path: &std::path::Path| {
            !path.is_dir() && !self.remote.as_ref().is_some_and(|remote| remote.has(path))
        };
        let gone: Vec<u64> = run
            .checkpoints
            .iter()
            .map(|saved| saved.iteration)
            .filter(|iteration| is_gone(&dir.join(checkpoint::name(*iteration))))
            .collect();
        for iteration in gone {
            run.checkpoints.forget(iteration);
        }
        let config = &self.run_config.checkpoint_config;
        if config.num_to_keep.is_none() && config.max_bytes.is_none() {
            return Ok(());
        }
        let here = checkpoint::list(&dir)?.into_iter().filter(|(_, path)| checkpoint::is_checkpoint(path));
        let mut found: BTreeSet<u64> = here.map(|(iteration, _)| iteration).collect();
        found.extend(there);
        for saved in run.checkpoints.iter() {
            found.remove(&saved.iteration);
        }
        found.into_iter().try_for_each(|iteration| self.delete(i, iteration))
    }
}
