//! Sweeps: many trials of one trainable, each with settings of its own.
//!
//! ```text
//! <storage path>/<experiment>/
//!     journal.jsonl             everything that happened: which trial has which settings, every result, every decision
//!     results.csv               a table of all trials, the best first, written when the sweep ends or is interrupted
//!     3f2a1_00000/              a trial: result.json, progress.csv, params.json, TensorBoard events, error.txt,
//!         checkpoint_000010/    its checkpoints, and from a process also stdout and stderr
//! ```
//!
//! [`Tuner::fit`] runs a sweep. [`Tuner::restore`] continues one, however it ended: it makes a new searcher, scheduler and
//! stopper and repeats their calls from the journal, and each trial continues from its newest complete checkpoint. Results
//! that the trial had reported after that checkpoint are trained again, but not reported again. If its trainables continue
//! exactly, a restored FIFO sweep therefore ends with the same results as one that was never interrupted.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::base::{Config, Error, Result, files, node};
use crate::functions::TrainableFactory;
use crate::search::SearchSpace;
use crate::storage;

mod builder;
mod callback;
mod checkpoints;
mod control;
mod experiment_file;
mod failures;
mod fill;
pub(crate) mod journal;
mod life;
mod pool;
mod reporter;
mod results;
mod resume;
mod settings;
mod standings;
mod stored_sweep;
mod sweep;
mod sweep_file;
mod table;

pub use callback::Callback;
pub use experiment_file::ExperimentFile;
pub use reporter::{ProgressReporter, SweepProgress};
pub use results::{ResultGrid, Scope, TrialResult};
pub use settings::{CheckpointConfig, ExecutorKind, FailFast, FailureConfig, Restore, RunConfig, TuneConfig};
pub use standings::Standings;
pub use sweep_file::SweepFile;

use journal::{Event, FORMAT_VERSION, Header, Journal};
use stored_sweep::StoredSweep;

/// A sweep: a trainable, a search space, and the settings for running its trials.
///
/// ```no_run
/// use pavlov_tune::search::loguniform;
/// use pavlov_tune::{Config, Result, TrainableFactory, Tuner, session};
/// use serde_json::json;
///
/// fn descend(config: &Config) -> Result<()> {
///     let mut x = 1.0;
///     for _ in 0..10 {
///         x -= config.get_or("lr", 0.1)? * 2.0 * x;
///         session::report(json!({"loss": x * x}), None)?;
///     }
///     Ok(())
/// }
///
/// let trainable = TrainableFactory::function("descend", descend);
/// let results = Tuner::new(trainable)
///     .space(json!({"lr": loguniform(1e-3, 1.0)}))
///     .minimize("loss")
///     .samples(20)
///     .fit()?;
/// println!("{}", results.best()?.config["lr"]);
/// # Ok::<(), pavlov_tune::Error>(())
/// ```
pub struct Tuner {
    /// Trainable that each trial runs.
    pub trainable: TrainableFactory,
    /// Search space: settings, with domains for the values to draw.
    pub param_space: SearchSpace,
    /// Settings for how trials are drawn and scheduled.
    pub tune_config: TuneConfig,
    /// Settings for where the sweep writes, when trials stop, and what happens when they fail.
    pub run_config: RunConfig,
}

impl Tuner {
    /// Creates a sweep of `trainable` with an empty search space and default settings, which is one trial.
    pub fn new(trainable: TrainableFactory) -> Self {
        Tuner {
            trainable,
            param_space: Config::new().into(),
            tune_config: TuneConfig::default(),
            run_config: RunConfig::default(),
        }
    }

    /// Runs the sweep, or continues the one that [`resume`](Tuner::resume) finds. Failed trials are part of the result, not
    /// an error of this call.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a setting is out of range, and [`Error::Resources`] if a trial asks for more resources
    /// than there are. Returns [`Error::Experiment`] if an experiment of that name exists, if no trial can continue, or if
    /// the upload to the storage is incomplete. Returns [`Error::TrialFailed`] if a trial fails with [`FailFast::Raise`].
    /// Returns errors of the searcher, the scheduler, the stopper and callbacks unchanged, and [`Error::Io`] or
    /// [`Error::Storage`] if the sweep cannot be written. After an error, a sweep that had begun can be restored.
    pub fn fit(self) -> Result<ResultGrid> {
        self.fit_with(None)
    }

    /// Does the same as [`fit`](Tuner::fit), and writes `file` beside the journal before the experiment counts as begun.
    ///
    /// # Errors
    /// Fails in the same cases as [`fit`](Tuner::fit).
    pub fn fit_with(self, file: Option<ExperimentFile>) -> Result<ResultGrid> {
        if let Some(place) = self.run_config.sweep_to_resume()? {
            return self.restore_with(&place, Restore::default(), file);
        }
        let root = files::results_root(self.run_config.storage_path.as_deref());
        let name = match &self.run_config.name {
            Some(name) => {
                check_name(name)?;
                name.clone()
            }
            None => self.dated_name(&root),
        };
        self.check()?;
        let executor = self.new_executor()?;
        let pool = self.pool(&*executor)?;
        let (dir, remote) = match root.to_str().filter(|_| storage::scheme(&root).is_some()) {
            Some(url) => {
                let url = storage::join(url, &name);
                let dir = storage::work_dir(&url)?;
                let remote = StoredSweep::begin(&url, &dir, &self.run_config.sync_config)?;
                (dir, Some(remote))
            }
            None => {
                let dir = absolute(&root.join(&name))?;
                std::fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
                (dir, None)
            }
        };
        let objective = self.tune_config.objective.as_ref();
        let header = Header {
            format_version: FORMAT_VERSION,
            pavlov: env!("CARGO_PKG_VERSION").into(),
            name,
            prefix: format!("{:05x}", rand::random::<u32>() & 0xf_ffff),
            trainable: self.trainable.name().into(),
            metric: objective.map(|objective| objective.metric.clone()),
            mode: objective.map(|objective| objective.mode),
            num_samples: self.tune_config.num_samples,
            space: self.param_space.as_json().clone(),
            resources: pool.total().clone(),
        };
        let mut journal = Journal::create(&dir)?;
        file.as_ref().map_or(Ok(()), |file| file.write(&dir))?;
        journal.keep(file);
        journal.append(&Event::Experiment(Cow::Borrowed(&header)))?;
        self.run_sweep(dir, header, journal, (executor, pool), remote, None)
    }

    /// Checks that `dir`, a directory or a URL, has a sweep to [`restore`](Tuner::restore).
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if there is no sweep, or if it was killed before it began. Returns [`Error::Io`],
    /// [`Error::Config`] or [`Error::Storage`] if the journal cannot be read or the storage cannot be used.
    pub fn can_restore(dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref();
        if stored_sweep::has_begun(dir)? { Ok(()) } else { Err(Error::experiment(dir, "there is no sweep")) }
    }

    /// Returns the default name of an experiment: the trainable's name and the date, plus a number if that name exists
    /// already.
    fn dated_name(&self, root: &Path) -> String {
        let dated = format!("{}_{}", self.trainable.name(), node::date(&node::local(SystemTime::now())));
        let is_free = |name: &String| !root.join(name).exists();
        let mut names = std::iter::once(dated.clone()).chain((2..100).map(|n| format!("{dated}_{n}")));
        names.find(is_free).unwrap_or(dated)
    }

    fn check(&self) -> Result<()> {
        let config = &self.tune_config;
        if config.num_samples == Some(0) {
            let rule = "it must be 1 or more, or without limit: `None` in a program, -1 in a file";
            return Err(Error::config("num_samples", 0, rule));
        }
        if config.max_concurrent_trials == Some(0) {
            let rule = "it must be 1 or more, or absent for no limit";
            return Err(Error::config("max_concurrent_trials", 0, rule));
        }
        if self.run_config.sync_config.sync_period.is_zero() {
            return Err(Error::config("sync_period", "0", "it must be above 0"));
        }
        self.run_config.failure_config.check()?;
        self.run_config.checkpoint_config.check(self.trainable.is_function())
    }
}

/// Checks that the name of an experiment neither leads out of the storage path nor makes the directory hidden.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
        let rule = "it names one directory: letters and digits, no slash, no dot in front";
        return Err(Error::config("name", name, rule));
    }
    Ok(())
}

fn absolute(dir: &Path) -> Result<PathBuf> {
    std::path::absolute(dir).map_err(Error::io("find the absolute path of", dir))
}

impl fmt::Debug for Tuner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuner")
            .field("trainable", &self.trainable)
            .field("param_space", &self.param_space)
            .field("tune_config", &self.tune_config)
            .field("run_config", &self.run_config)
            .finish_non_exhaustive()
    }
}
