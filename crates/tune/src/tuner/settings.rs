//! Settings of a sweep, with the names and defaults of Ray Tune.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pavlov_processes::Bundle;
use serde::{Deserialize, Serialize};

use super::{Callback, ProgressReporter, stored_sweep};
use crate::base::{Error, Objective, Result, files, limit};
use crate::run::Resume;
use crate::schedulers::TrialScheduler;
use crate::search::Searcher;
use crate::stoppers::Stopper;
use crate::storage::{self, SyncConfig};

/// Settings for how trials are drawn and scheduled.
pub struct TuneConfig {
    /// Objective of the sweep: a metric, and whether high or low values are better. `None`: that of the scheduler, if any.
    pub objective: Option<Objective>,
    /// Number of trials to draw; for the default searcher, number of repetitions of the whole grid. `None`: unlimited,
    /// until a stop condition of the experiment is met. Default: 1.
    pub num_samples: Option<u64>,
    /// Seed of the default searcher.
    pub seed: u64,
    /// Maximum number of trials that run at the same time. `None`: limited only by the resources.
    pub max_concurrent_trials: Option<usize>,
    /// Searcher that draws trials. `None`: random and grid search.
    pub search_alg: Option<Box<dyn Searcher>>,
    /// Scheduler that stops, pauses and changes trials. `None`: FIFO.
    pub scheduler: Option<Box<dyn TrialScheduler>>,
    /// Maximum running time of the sweep, which includes the time before a restore. `None`: unlimited.
    pub time_budget: Option<Duration>,
    /// Whether a trial that ends passes its trainable on to the next one, by `reset_config`.
    pub reuse_actors: bool,
    /// Executor that runs the trials: in threads, in processes or on Ray.
    pub executor: ExecutorKind,
    /// Total resources that trials share. `None`: the cores and GPUs of this machine, or the resources of the Ray cluster.
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

/// Executor of a sweep: where its trials run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// Threads of this process: start in microseconds, share memory, write no `stdout` and `stderr` files. A panic ends only
    /// its trial; a crash of native code ends the sweep.
    #[default]
    Threads,
    /// Processes: even a crash ends only its trial. `main` must call [`child_main`](crate::child_main) first.
    Processes,
    /// Processes on a Ray cluster: the one at `RAY_ADDRESS`, or one that the sweep starts on this machine. All machines of
    /// the cluster must see the experiment's directory. `main` must call [`child_main`](crate::child_main) first.
    Ray,
}

/// Settings for where a sweep writes, when its trials stop, and what happens when they fail.
///
/// Three settings of Ray are absent. `log_to_file`: trials in processes always write their output to files. `verbose`: give
/// a [`ProgressReporter`]. `storage_filesystem`: the scheme of `storage_path` selects it.
pub struct RunConfig {
    /// Name of the experiment's directory below the storage path. `None`: the trainable's name and the date.
    pub name: Option<String>,
    /// Directory or URL below which the sweep writes. A sweep at `s3://bucket/prefix` works in the local directory
    /// `<results root>/s3/bucket/prefix/<name>` and is uploaded in the background. `None`: the results root, which is the
    /// environment variable `PAVLOV_RESULTS_DIR` or else `~/pavlov_results`.
    pub storage_path: Option<PathBuf>,
    /// What happens if there is a sweep of that `name` already. The default refuses the new one.
    pub resume: Resume,
    /// Settings for the upload to the storage.
    pub sync_config: SyncConfig,
    /// Stopper that ends trials or the whole sweep. `None`: no stop condition.
    pub stop: Option<Box<dyn Stopper>>,
    /// Settings for what happens when a trial fails.
    pub failure_config: FailureConfig,
    /// Settings for which checkpoints are written and kept.
    pub checkpoint_config: CheckpointConfig,
    /// Callbacks that are called at events of the sweep.
    pub callbacks: Vec<Box<dyn Callback>>,
    /// What shows the running sweep to the user. `None`: nothing is printed, and failed trials are logged as warnings.
    pub progress_reporter: Option<Box<dyn ProgressReporter>>,
    /// Whether trials write `result.json`, `progress.csv`, `params.json` and TensorBoard events. Default: true.
    pub log_results: bool,
    /// Flag that interrupts the sweep, for a Ctrl-C handler. Once it is true, running trials are saved and the sweep
    /// returns; it can be restored later.
    pub interrupt: Arc<AtomicBool>,
}

impl Default for RunConfig {
    fn default() -> Self {
        RunConfig {
            name: None,
            storage_path: None,
            resume: Resume::default(),
            sync_config: SyncConfig::default(),
            stop: None,
            failure_config: FailureConfig::default(),
            checkpoint_config: CheckpointConfig::default(),
            callbacks: Vec::new(),
            progress_reporter: None,
            log_results: true,
            interrupt: Arc::default(),
        }
    }
}

impl RunConfig {
    /// Returns the directory or URL of the sweep that [`resume`](RunConfig::resume) continues; `None` for a new sweep.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for [`Resume::IfThere`] without a `name`. Returns [`Error::Io`], [`Error::Config`] or
    /// [`Error::Storage`] if the place cannot be read.
    pub fn sweep_to_resume(&self) -> Result<Option<PathBuf>> {
        if self.resume != Resume::IfThere {
            return Ok(None);
        }
        let Some(name) = &self.name else {
            let rule = "it needs `name`: without one every sweep has a new directory";
            return Err(Error::config("resume", "Resume::IfThere", rule));
        };
        let root = files::results_root(self.storage_path.as_deref());
        let place = match root.to_str().filter(|_| storage::scheme(&root).is_some()) {
            Some(url) => storage::join(url, name).into(),
            None => root.join(name),
        };
        Ok(stored_sweep::has_begun(&place)?.then_some(place))
    }
}

/// Settings for what happens when a trial fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailureConfig {
    /// Number of times that a failed trial is tried again from its newest complete checkpoint. `None`, which is -1 in a
    /// file: unlimited. Default: 0.
    #[serde(with = "limit::minus_one")]
    pub max_failures: Option<u64>,
    /// Effect of the first failure on the other trials.
    pub fail_fast: FailFast,
}

/// What the first failure of a trial does to the other trials. A settings file may also write it as Ray does: `false` means
/// `never`, `true` means `stop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", from = "Written")]
pub enum FailFast {
    /// The other trials continue.
    #[default]
    Never,
    /// The sweep is interrupted: running trials are saved, and a restore goes on with all that have not ended. (In Ray they
    /// have ended.)
    Stop,
    /// `fit` returns the failure as its error at once.
    Raise,
}

/// The forms of [`FailFast`] in files.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it must be \"never\", \"stop\", \"raise\", true or false")]
enum Written {
    Flag(bool),
    Name(Name),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Never,
    Stop,
    Raise,
}

impl From<Written> for FailFast {
    fn from(written: Written) -> Self {
        match written {
            Written::Flag(false) | Written::Name(Name::Never) => Self::Never,
            Written::Flag(true) | Written::Name(Name::Stop) => Self::Stop,
            Written::Name(Name::Raise) => Self::Raise,
        }
    }
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

/// Settings for which checkpoints are written and kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Number of iterations from one checkpoint to the next. `None`, which is 0 in a file: no checkpoints at fixed
    /// intervals. A result with `should_checkpoint` requests a checkpoint at any time.
    #[serde(with = "limit::zero")]
    pub checkpoint_frequency: Option<u64>,
    /// Whether each trial writes a checkpoint at its end. `None`: yes, except for function trainables, which report their
    /// own checkpoints.
    pub checkpoint_at_end: Option<bool>,
    /// Number of best checkpoints that each trial keeps; its newest is kept as well. `None`: all.
    pub num_to_keep: Option<usize>,
    /// Objective by which a trial's checkpoints are ranked. `None`: newer checkpoints are better. In files the objective is
    /// written as `checkpoint_score_attribute` and `checkpoint_score_order`, which is `max` if it is absent.
    #[serde(flatten, with = "score")]
    pub score: Option<Objective>,
    /// Maximum size in bytes of all checkpoints of the experiment together. If it is exceeded, the oldest are deleted,
    /// except each trial's newest and those that are still needed. `None`: unlimited.
    pub max_bytes: Option<u64>,
}

/// (De)serialization of the objective of checkpoints as Ray's settings `checkpoint_score_attribute` and
/// `checkpoint_score_order`.
mod score {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use serde_json::Value;

    use crate::base::{Mode, Objective, config};

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

/// Selection of the trials that a restored sweep continues. Completed trials are never continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// Whether trials that were running, paused or pending are continued. Default: true.
    pub resume_unfinished: bool,
    /// Whether failed trials are continued from their newest checkpoint. Default: false.
    pub resume_errored: bool,
    /// Whether failed trials are started from scratch. Default: false.
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
            .field("resume", &self.resume)
            .field("failure_config", &self.failure_config)
            .field("checkpoint_config", &self.checkpoint_config)
            .finish_non_exhaustive()
    }
}
