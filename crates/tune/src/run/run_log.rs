//! The run directory and its loggers, which are created at the first result or checkpoint and not before.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::{Config, Error, Metrics, Result, files};
use crate::checkpoint::Metadata;
use crate::loggers::{
    CsvLogger, JsonLogger, Logger, PARAMS_FILE, RESULTS_FILE, TensorBoardLogger, last_result, write_params,
};
use crate::run::LoggerChoice;
use crate::trainable::TrialContext;

/// Opens the loggers of a run and passes every result to them.
pub(crate) struct RunLog {
    dir: PathBuf,
    trial: TrialContext,
    /// Open loggers, the standard ones first.
    loggers: Vec<Box<dyn Logger>>,
    /// The user's loggers that are not open yet.
    own: Vec<Box<dyn Logger>>,
    is_open: bool,
    standard: bool,
    rewind_to: Option<u64>,
    hparams: Option<Config>,
    /// Names and contents of other files of the run, which are written again if they are deleted.
    kept: Vec<(String, Vec<u8>)>,
    /// Whether the user was told that files were deleted.
    told: bool,
}

impl RunLog {
    pub(crate) fn new(trial: TrialContext, choice: LoggerChoice, hparams: Option<Config>) -> Self {
        let (standard, own) = match choice {
            LoggerChoice::Default => (true, Vec::new()),
            LoggerChoice::None => (false, Vec::new()),
            LoggerChoice::Custom(own) => (false, own),
            LoggerChoice::DefaultAnd(own) => (true, own),
        };
        let dir = trial.logdir.clone();
        let loggers = Vec::new();
        let rewind_to = None;
        let kept = Vec::new();
        RunLog { dir, trial, loggers, own, is_open: false, standard, rewind_to, hparams, kept, told: false }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates the run directory.
    pub(crate) fn make_dir(&self) -> Result<()> {
        if self.dir.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.dir).map_err(Error::io("create", &self.dir))
    }

    /// Number of standard loggers among the open ones.
    fn num_standard(&self) -> usize {
        if self.standard { 3 } else { 0 }
    }

    /// Whether there are any loggers.
    pub(crate) fn is_written(&self) -> bool {
        self.standard || self.has_own()
    }

    /// Whether the user gave any loggers.
    pub(crate) fn has_own(&self) -> bool {
        !self.own.is_empty() || self.loggers.len() > self.num_standard()
    }

    /// Opens the loggers unless they are open.
    pub(crate) fn open(&mut self, config: &Config) -> Result<()> {
        if self.is_open {
            return Ok(());
        }
        if self.standard || !self.own.is_empty() {
            self.make_dir()?;
        }
        if self.standard && self.loggers.is_empty() {
            write_params(&self.dir, config)?;
            let mut tensorboard = TensorBoardLogger::open(&self.dir)?;
            if let Some(hparams) = &self.hparams {
                tensorboard.hparams(hparams)?;
            }
            self.loggers = vec![
                Box::new(JsonLogger::open(&self.dir)?),
                Box::new(CsvLogger::open(&self.dir)?),
                Box::new(tensorboard),
            ];
        }
        while !self.own.is_empty() {
            self.own[0].setup(config, &self.trial)?;
            self.loggers.push(self.own.remove(0));
        }
        self.is_open = true;
        Ok(())
    }

    /// Passes a result to every logger, after rewinding them if that is due.
    pub(crate) fn on_result(&mut self, result: &Metrics, config: &Config) -> Result<()> {
        let are_new = self.loggers.is_empty();
        self.open(config)?;
        if !are_new {
            self.write_missing(config)?;
        }
        if let Some(iteration) = self.rewind_to {
            self.loggers.iter_mut().try_for_each(|logger| logger.rewind(iteration))?;
            self.rewind_to = None;
        }
        self.loggers.iter_mut().try_for_each(|logger| logger.on_result(result))
    }

    /// Tells the loggers that the trainable failed.
    pub(crate) fn failed(&mut self) {
        self.loggers.iter_mut().for_each(|logger| logger.failed());
    }

    /// Has a file of the run directory, which exists already, written again if it is deleted.
    pub(crate) fn keep(&mut self, name: &str, content: Vec<u8>) {
        self.kept.retain(|(known, _)| known != name);
        self.kept.push((name.into(), content));
    }

    /// Writes the files of the run again that were deleted or replaced while it trains. The user is told the first time.
    pub(crate) fn write_missing(&mut self, config: &Config) -> Result<()> {
        let dir = self.dir.clone();
        let again = self.write_into(&dir, config)?;
        if !again.is_empty() && !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                "files were deleted in {} during training: {}. They are written again, with all results so far. Deleted \
                 checkpoints stay lost",
                dir.display(),
                again.join(", ")
            );
        }
        Ok(())
    }

    /// Goes on in another directory, which exists: all files are written there again.
    pub(crate) fn move_to(&mut self, dir: &Path, config: &Config) -> Result<()> {
        self.write_into(dir, config)?;
        self.dir = dir.into();
        Ok(())
    }

    /// Writes what `dir` lacks of the run's files, and returns the names.
    fn write_into(&mut self, dir: &Path, config: &Config) -> Result<Vec<String>> {
        let mut again: Vec<String> = Vec::new();
        // Who deletes the files meanwhile may have taken the new one; then it is written the next time.
        let mut note = |name: &str, written: Result<()>| match written {
            Ok(()) => {
                again.push(name.into());
                Ok(())
            }
            Err(error) if error.is_of_missing_file() => Ok(()),
            failed => failed,
        };
        if self.is_open && self.standard && !dir.join(PARAMS_FILE).exists() {
            note(PARAMS_FILE, write_params(dir, config))?;
        }
        for (name, content) in &self.kept {
            let path = dir.join(name);
            if !path.exists() {
                note(name, files::replace_file(&path, content))?;
            }
        }
        for logger in &mut self.loggers {
            again.extend(logger.keep_in(dir)?);
        }
        Ok(again)
    }

    /// Makes all results so far durable, so that they survive a power cut.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.loggers.is_empty() {
            return Ok(());
        }
        self.loggers.iter_mut().try_for_each(|logger| logger.sync())?;
        if self.standard { files::sync_dir(&self.dir).map_err(Error::io("write", &self.dir)) } else { Ok(()) }
    }

    /// Warns if `result.json` lacks results from before a checkpoint of this run.
    pub(crate) fn warn_of_missing(&self, checkpoint: &Metadata, trial_id: &str) -> Result<()> {
        // Results of another trial's checkpoint were never in this directory.
        let origin = checkpoint.last_result.as_ref().and_then(|last| last.get("trial_id"));
        if !self.standard || origin.is_none_or(|origin| origin != trial_id) {
            return Ok(());
        }
        let iteration = |result: Metrics| result.get("training_iteration").and_then(Value::as_u64);
        let last = last_result(&self.dir)?.and_then(iteration).unwrap_or(0);
        if last < checkpoint.iteration {
            tracing::warn!(
                "{} lacks the results {} to {}, which were there when the checkpoint was written; training goes on \
                 without them",
                self.dir.join(RESULTS_FILE).display(),
                last + 1,
                checkpoint.iteration
            );
        }
        Ok(())
    }

    /// Before the next result, removes the results after `iteration` from the logs.
    pub(crate) fn rewind(&mut self, iteration: u64) {
        self.rewind_to = Some(iteration);
    }

    /// Reacts to changed settings: with the next result `params.json` is written again, and `setup` of the user's
    /// loggers is called.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        self.rewind_to = None;
        if std::mem::replace(&mut self.is_open, false) {
            self.own = self.loggers.split_off(self.num_standard());
            self.close()?;
            self.own.iter_mut().try_for_each(|logger| logger.flush())?;
        }
        Ok(())
    }

    /// Closes every logger even if one fails; the first error is returned.
    pub(crate) fn close(&mut self) -> Result<()> {
        let outcomes: Vec<Result<()>> = self.loggers.drain(..).map(|mut logger| logger.close()).collect();
        outcomes.into_iter().collect()
    }
}
