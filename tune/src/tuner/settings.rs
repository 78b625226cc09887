//! What a sweep can be told, with Ray's names and defaults.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Callback;
use crate::resources::Bundle;
use crate::schedulers::TrialScheduler;
use crate::search::Searcher;
use crate::stoppers::Stopper;
use crate::storage::SyncConfig;
use crate::{Error, Objective, Result, limit};

/// How trials are drawn and scheduled.
pub struct TuneConfig {
    /// What the sweep optimises. `None`: nothing, or what its scheduler has.
    pub objective: Option<Objective>,
    /// How many trials are drawn; for the default searcher, how often the whole grid is repeated. `None`: without end,
    /// until a stop condition of the experiment is met.
    pub num_samples: Option<u64>,
    /// The seed of the default searcher.
    pub seed: u64,
    /// How many trials run at the same time, at most. `None`: as many as there are resources for.
    pub max_concurrent_trials: Option<usize>,
    /// The searcher that draws trials. `None`: random and grid search.
    pub search_alg: Option<Box<dyn Searcher>>,
    /// The scheduler that stops, pauses and changes trials. `None`: FIFO.
    pub scheduler: Option<Box<dyn TrialScheduler>>,
    /// How long the sweep may run; the time before a restore counts. `None`: without end.
    pub time_budget: Option<Duration>,
    /// Whether a trial that ends hands its trainable on to the next one through `reset_config`.
    pub reuse_actors: bool,
    /// Where trials run.
    pub executor: ExecutorKind,
    /// The resources that trials share. `None`: the cores and GPUs of this machine, or what the Ray cluster has.
    pub total_resources: Option<Bundle>,
}

impl Default for TuneConfig {
    fn default() -> Self {
        TuneConfig {
            objective: None,
            num_samples: Some(1),
            seed: 0,
            max_concurrent_trials: None,
            search_alg: None,
            scheduler: None,
            time_budget: None,
            reuse_actors: false,
            executor: ExecutorKind::Threads,
            total_resources: None,
        }
    }
}

/// Where trials run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// In threads of this process: starts in microseconds, shares memory, writes no `stdout` and `stderr` files. A
    /// panic ends its trial alone; a crash of native code ends the sweep.
    #[default]
    Threads,
    /// In processes: whatever happens to one ends its trial alone. `main` must call
    /// [`child_main`](crate::child_main) first.
    Processes,
    /// In processes on a Ray cluster: the one at `RAY_ADDRESS`, or one of the sweep's own on this machine. All machines of the
    /// cluster must see the experiment's directory. `main` must call [`child_main`](crate::child_main) first.
    Ray,
}

/// Where a sweep writes, when its trials stop, and what happens when they fail.
///
/// Ray's `log_to_file` is what trials in processes always do; for its `progress_reporter` there are `verbose` and callbacks,
/// for its `storage_filesystem` the scheme of `storage_path`.
pub struct RunConfig {
    /// The experiment's directory below the storage path. `None`: the trainable's name and the date.
    pub name: Option<String>,
    /// A directory, or a URL such as `s3://bucket/prefix`: the sweep then works in `<results root>/s3/bucket/prefix/<name>`
    /// and is brought to the storage in the background. `None`: the results root, which is the environment variable
    /// `PAVLOV_RESULTS_DIR`, else `~/pavlov_results`.
    pub storage_path: Option<PathBuf>,
    /// How a sweep is uploaded to the storage.
    pub sync_config: SyncConfig,
    /// When trials stop.
    pub stop: Option<Box<dyn Stopper>>,
    /// What happens when a trial fails.
    pub failure_config: FailureConfig,
    /// Which checkpoints are written and kept.
    pub checkpoint_config: CheckpointConfig,
    /// The callbacks that are told what happens.
    pub callbacks: Vec<Box<dyn Callback>>,
    /// How much is printed. 0: nothing; 1: the table of trials, live on a terminal and every now and then elsewhere; 2: a line for each result
    /// as well.
    pub verbose: u8,
    /// Whether trials write `result.json`, `progress.csv`, `params.json` and TensorBoard events.
    pub log_results: bool,
    /// A command that trains one trial alone, shown when it fails; `{number}` in it stands for the number of the trial.
    pub replay_command: Option<String>,
    /// A flag for a handler of Ctrl-C: once it is true, trials are saved and the sweep returns, to be restored later.
    pub interrupt: Arc<AtomicBool>,
}

impl Default for RunConfig {
    fn default() -> Self {
        RunConfig {
            name: None,
            storage_path: None,
            sync_config: SyncConfig::default(),
            stop: None,
            failure_config: FailureConfig::default(),
            checkpoint_config: CheckpointConfig::default(),
            callbacks: Vec::new(),
            verbose: 1,
            log_results: true,
            replay_command: None,
            interrupt: Arc::default(),
        }
    }
}

/// What happens when a trial fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailureConfig {
    /// How often a trial is tried again from its newest whole checkpoint. `None`: without end, which is -1 in a file.
    #[serde(with = "limit::minus_one")]
    pub max_failures: Option<u64>,
    /// What the first failure does to the others.
    pub fail_fast: FailFast,
}

/// What the first failure of a trial does to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailFast {
    /// The others go on.
    #[default]
    Never,
    /// The failure stops the others.
    Stop,
    /// The failure is the error of `fit`, at once.
    Raise,
}

impl Default for FailureConfig {
    fn default() -> Self {
        FailureConfig { max_failures: Some(0), fail_fast: FailFast::Never }
    }
}

impl FailureConfig {
    pub(super) fn check(&self) -> Result<()> {
        if self.fail_fast != FailFast::Never && self.max_failures != Some(0) {
            let rule = "it must be 0 with `fail_fast`, which allows no failure";
            let value = self.max_failures.map_or("without limit".into(), |most| most.to_string());
            return Err(Error::config("max_failures", value, rule));
        }
        Ok(())
    }
}

/// Which checkpoints are written and kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Iterations from one checkpoint to the next. `None`, which is 0 in a file: none by count. A result with
    /// `should_checkpoint` asks for one at any time.
    #[serde(with = "limit::zero")]
    pub checkpoint_frequency: Option<u64>,
    /// Whether each trial writes a checkpoint at its end. `None`: yes, except for functions, which save by themselves.
    pub checkpoint_at_end: Option<bool>,
    /// How many of the best checkpoints of each trial stay, beside its newest. `None`: all.
    pub num_to_keep: Option<usize>,
    /// What the best checkpoint is best at. `None`: the newer, the better. Files have it as `checkpoint_score_attribute` and
    /// `checkpoint_score_order`, which is `max` if it is absent.
    #[serde(flatten, with = "score")]
    pub score: Option<Objective>,
    /// When all checkpoints of the experiment together have more bytes, the oldest ones go; the newest of each trial and
    /// those that something still needs stay.
    pub max_bytes: Option<u64>,
}

/// The objective of checkpoints under Ray's two names.
mod score {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use serde_json::Value;

    use crate::{Mode, Objective, config};

    const ATTRIBUTE: &str = "checkpoint_score_attribute";
    const ORDER: &str = "checkpoint_score_order";

    #[derive(Serialize)]
    struct Written<'a> {
        checkpoint_score_attribute: Option<&'a str>,
        checkpoint_score_order: Option<Mode>,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Read {
        checkpoint_score_attribute: Value,
        checkpoint_score_order: Value,
    }

    pub(super) fn serialize<S: Serializer>(
        score: &Option<Objective>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let score = score.as_ref();
        Written {
            checkpoint_score_attribute: score.map(|score| &*score.metric),
            checkpoint_score_order: score.map(|score| score.mode),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Objective>, D::Error> {
        let Read { checkpoint_score_attribute, checkpoint_score_order } = Read::deserialize(deserializer)?;
        let refuse = |key, rule| de::Error::custom(config::at(key, rule));
        let metric: Option<String> = serde_json::from_value(checkpoint_score_attribute)
            .map_err(|_| refuse(ATTRIBUTE, "it must be a key of the results"))?;
        let mode: Option<Mode> = serde_json::from_value(checkpoint_score_order)
            .map_err(|_| refuse(ORDER, "it must be `min` or `max`"))?;
        Ok(metric.map(|metric| Objective { metric, mode: mode.unwrap_or(Mode::Max) }))
    }
}

impl CheckpointConfig {
    pub(super) fn check(&self, is_function: bool) -> Result<()> {
        if self.num_to_keep == Some(0) {
            return Err(Error::config("num_to_keep", 0, "it must be 1 or more, or absent to keep all"));
        }
        if self.checkpoint_frequency == Some(0) {
            let rule = "it must be 1 or more, or absent for none by count";
            return Err(Error::config("checkpoint_frequency", 0, rule));
        }
        let rule = "a function or training loop saves when it reports a checkpoint: leave it out";
        if let Some(frequency) = self.checkpoint_frequency.filter(|_| is_function) {
            return Err(Error::config("checkpoint_frequency", frequency, rule));
        }
        if is_function && self.checkpoint_at_end == Some(true) {
            return Err(Error::config("checkpoint_at_end", true, rule));
        }
        Ok(())
    }
}

/// Which trials of a restored sweep go on; those that completed never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// Whether trials that were running, paused or waiting go on.
    pub resume_unfinished: bool,
    /// Whether trials that failed too often go on from their newest checkpoint.
    pub resume_errored: bool,
    /// Whether trials that failed too often begin again.
    pub restart_errored: bool,
}

impl Default for Restore {
    fn default() -> Self {
        Restore { resume_unfinished: true, resume_errored: false, restart_errored: false }
    }
}

impl fmt::Debug for TuneConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TuneConfig")
            .field("objective", &self.objective)
            .field("num_samples", &self.num_samples)
            .field("seed", &self.seed)
            .field("executor", &self.executor)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RunConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunConfig")
            .field("name", &self.name)
            .field("storage_path", &self.storage_path)
            .field("failure_config", &self.failure_config)
            .field("checkpoint_config", &self.checkpoint_config)
            .finish_non_exhaustive()
    }
}
