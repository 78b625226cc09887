//! `trainer.json`: the settings of a training, stored in the directory of its experiment.

use std::path::Path;

use pavlov_tune::session::Checkpoint;
use pavlov_tune::storage::SyncConfig;
use pavlov_tune::{
    Bundle, CheckpointConfig, Config, Error, ExecutorKind, ExperimentFile, FailureConfig, Result, RunConfig,
    Tuner,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ScalingConfig;

const FILE: &str = "trainer.json";
const FORMAT_VERSION: u32 = 1;

/// Versions and trainer that wrote the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    format_version: u32,
    pavlov: String,
    trainer: String,
}

impl Header {
    pub(super) fn of(trainer: String) -> Self {
        Header { format_version: FORMAT_VERSION, pavlov: env!("CARGO_PKG_VERSION").into(), trainer }
    }
}

/// Content of `trainer.json`: all settings of a training, without code and datasets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    #[serde(flatten)]
    pub(super) header: Header,
    pub(super) settings: Value,
    pub(super) scaling_config: ScalingConfig,
    pub(super) run_config: StoredRunConfig,
    /// Names of the datasets.
    pub(super) datasets: Vec<String>,
    pub(super) metadata: Config,
    pub(super) resume_from_checkpoint: Option<Checkpoint>,
    pub(super) executor: ExecutorKind,
    pub(super) total_resources: Option<Bundle>,
}

/// The part of a [`RunConfig`] that can be stored. Name and storage path follow from the place of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredRunConfig {
    failure_config: FailureConfig,
    checkpoint_config: CheckpointConfig,
    log_results: bool,
    sync_config: SyncConfig,
    /// Whether the training had a stop condition.
    stop: bool,
    /// Number of callbacks.
    callbacks: usize,
}

impl StoredRunConfig {
    pub(super) fn of(run_config: &RunConfig) -> Self {
        let RunConfig {
            failure_config,
            checkpoint_config,
            log_results,
            sync_config,
            stop,
            callbacks,
            name: _,
            storage_path: _,
            resume: _,
            interrupt: _,
            progress_reporter: _,
        } = run_config;
        StoredRunConfig {
            failure_config: *failure_config,
            checkpoint_config: checkpoint_config.clone(),
            log_results: *log_results,
            sync_config: sync_config.clone(),
            stop: stop.is_some(),
            callbacks: callbacks.len(),
        }
    }

    pub(super) fn run_config(&self) -> RunConfig {
        RunConfig {
            failure_config: self.failure_config,
            checkpoint_config: self.checkpoint_config.clone(),
            log_results: self.log_results,
            sync_config: self.sync_config.clone(),
            ..RunConfig::default()
        }
    }

    /// Logs a warning if the training began with a stop condition or callbacks that were not given again.
    pub(super) fn warn_of_what_is_missing(&self, now: &RunConfig) {
        if self.stop && now.stop.is_none() {
            tracing::warn!(
                "the training began with a stop condition and goes on without: give it to `run_config`"
            );
        }
        if self.callbacks > now.callbacks.len() {
            tracing::warn!(
                "the training began with callbacks and goes on without: give them to `run_config`"
            );
        }
    }
}

impl Stored {
    /// Checks the names of the datasets of a restored training.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the names are not those that the training began with.
    pub(super) fn refuse_other_datasets<'a>(&self, names: impl Iterator<Item = &'a String>) -> Result<()> {
        let names: Vec<&String> = names.collect();
        if names.iter().copied().eq(&self.datasets) {
            return Ok(());
        }
        let rule = format!("the training began with {:?}: give it datasets of these names", self.datasets);
        Err(Error::config("datasets", format!("{names:?}"), rule))
    }

    /// Reads the file of the training in `dir`, which must belong to the trainer `name`.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if there is no training of this trainer that can be restored, and [`Error::Io`] or
    /// [`Error::Storage`] if `dir` cannot be read.
    pub(super) fn read(dir: &Path, name: &str) -> Result<Self> {
        let refuse = |reason: String| Error::experiment(dir, reason);
        let Some(text) = ExperimentFile::read(dir, FILE)? else {
            return Err(refuse(if Tuner::can_restore(dir).is_ok() {
                format!("it is a sweep, but not one of a trainer: no {FILE}; use `Tuner::restore`")
            } else {
                format!("there is no training in it: no {FILE}")
            }));
        };
        let unreadable = |error: serde_json::Error| refuse(format!("{FILE}: {error}"));
        let header: Header = serde_json::from_slice(&text).map_err(unreadable)?;
        if header.format_version != FORMAT_VERSION {
            return Err(refuse(format!(
                "{FILE}: format version {} cannot be read by this version of pavlov, which reads {FORMAT_VERSION}",
                header.format_version
            )));
        }
        if header.trainer != name {
            return Err(refuse(format!(
                "it was begun by {}, but is to be restored by {name}",
                header.trainer
            )));
        }
        Tuner::can_restore(dir).map_err(|error| match error {
            Error::Experiment { .. } => {
                refuse("the training was killed before it began: begin it anew".into())
            }
            unreachable => unreachable,
        })?;
        serde_json::from_slice(&text).map_err(unreadable)
    }

    pub(super) fn file(&self) -> Result<ExperimentFile> {
        let content = serde_json::to_vec_pretty(self).map_err(Error::other)?;
        Ok(ExperimentFile { name: FILE, content })
    }
}
