//! Runs a [`Trainable`] with counting, saving, restoring and logging around it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::base::node::SysUsage;
use crate::base::{Config, Error, Metrics, Resources, Result};
use crate::checkpoint::{self, Retention};
use crate::run::resume::refuse_used;
use crate::run::{Resume, RunLog, RunOptions};
use crate::storage;
use crate::trainable::{Trainable, TrialContext};

mod counting;
mod run_dir;
mod saving;
mod upload;

use counting::{Counters, count, seconds};
use run_dir::FoundRunDir;
use upload::RunUpload;

/// Runs a [`Trainable`]: `train`, `save`, `restore` and `stop`. The trainable's own methods can be called on the driver
/// as well.
///
/// Nothing is written to disk before the first result or checkpoint, and then only into [`logdir`](Driver::logdir)
/// unless another directory is given.
pub struct Driver<T: Trainable> {
    trainable: T,
    config: Config,
    trial: TrialContext,
    experiment_id: String,
    counters: Counters,
    restored: bool,
    last_result: Option<Metrics>,
    constructed: Instant,
    warmup: Option<Duration>,
    usage: Option<SysUsage>,
    log: RunLog,
    run_dir: FoundRunDir,
    retention: Retention,
    remote: Option<RunUpload>,
    /// Iteration of the newest result that the loggers have.
    logged: u64,
    /// Directory in which the last checkpoint was written, and the number of that checkpoint (in its `Manifest`).
    numbered: Option<(PathBuf, u64)>,
    stopped: bool,
    /// Whether what lies in the run directory is this run's.
    is_own_dir: bool,
}

/// Duration of `setup` above which a log message suggests `reset_config`.
const SLOW_SETUP: Duration = Duration::from_secs(10);

impl<T: Trainable> Driver<T> {
    /// Makes a driver with the default [`RunOptions`]; see [`Driver::with`].
    ///
    /// # Errors
    /// Returns the error of `setup`.
    pub fn new(trainable: T, config: Config) -> Result<Self> {
        Self::with(trainable, config, RunOptions::default())
    }

    /// Makes a driver and sets the trainable up. With [`Resume::IfThere`] it continues the run in the run directory.
    ///
    /// # Errors
    /// Returns the error of `setup`, and [`Error::Config`] if an option has a value that is not allowed or the run
    /// directory holds a run that is not to be continued. With a `remote_checkpoint_dir`, returns [`Error::Experiment`] if another driver writes there, [`Error::Storage`] if the
    /// storage cannot be used, and [`Error::Checkpoint`] if a checkpoint there is damaged.
    pub fn with(trainable: T, config: Config, options: RunOptions) -> Result<Self> {
        let constructed = Instant::now();
        let trial = options.trial(&trainable.kind())?;
        if options.resume == Resume::Never {
            refuse_used(&trial.logdir)?;
        }
        let resume = options.resume;
        let retention = Retention::new(options.keep_checkpoints_num, &options.checkpoint_score_attr);
        let mut driver = Driver {
            trainable,
            experiment_id: format!("{:032x}", rand::random::<u128>()),
            counters: Counters::default(),
            restored: false,
            last_result: None,
            constructed,
            warmup: None,
            usage: sys_usage(&config, &options),
            config,
            remote: RunUpload::start(&options, &trial.logdir, &retention)?,
            log: RunLog::new(trial.clone(), options.loggers, options.hparams),
            run_dir: FoundRunDir::default(),
            retention,
            trial,
            logged: 0,
            numbered: None,
            stopped: false,
            is_own_dir: false,
        };
        let started = Instant::now();
        driver.trainable.setup(&driver.config, &driver.trial)?;
        driver.adopt_resolved_config();
        if started.elapsed() > SLOW_SETUP {
            tracing::info!(
                "setup took {:.0} s; implement `reset_config` so that a sweep can reuse the object",
                started.elapsed().as_secs_f64()
            );
        }
        if resume == Resume::IfThere {
            driver.resume()?;
        }
        Ok(driver)
    }

    /// Continues the run in the run directory from its newest checkpoint, or from the one at `remote_checkpoint_dir` if the
    /// directory has none. Without a checkpoint the run starts again from the beginning.
    fn resume(&mut self) -> Result<()> {
        let dir = self.log.dir().to_path_buf();
        let newest = if dir.is_dir() { checkpoint::latest(&dir)? } else { None };
        if let Some(newest) = newest {
            return self.restore(&newest);
        }
        if let Some(url) = self.remote.as_ref().map(RunUpload::newest_checkpoint).transpose()?.flatten() {
            return self.restore(Path::new(&url));
        }
        // Two programs may begin in a new directory: the one that writes first has it.
        if refuse_used(&dir).is_ok() {
            return Ok(());
        }
        tracing::warn!("{} has no whole checkpoint: the run starts again from the beginning", dir.display());
        self.begin_again(false)
    }

    /// Refuses to write into a directory that holds another run: one that was there before without being restored, or one
    /// that another program began meanwhile.
    fn refuse_other_run(&mut self) -> Result<()> {
        if !self.is_own_dir {
            refuse_used(self.log.dir())?;
            self.is_own_dir = true;
        }
        Ok(())
    }

    /// Runs one iteration: steps the trainable, counts, adds the fields that every result has, and logs the result.
    ///
    /// The trainable's values of `done`, `training_iteration`, `timesteps_total` and `episodes_total` are kept; all
    /// other fields of [`get_auto_filled_metrics`](Driver::get_auto_filled_metrics) are overwritten by the driver's. A
    /// result with the key `__duplicate__` is returned unchanged and is not counted.
    ///
    /// # Errors
    /// Returns the error of `step`, or [`Error::Metric`] if a reserved key of the result has a value of the wrong type;
    /// no counter has changed then. Returns the error of `log_result` or of a logger, and [`Error::RunDirectory`] if the
    /// run directory was moved or removed (see [`rescue`](Driver::rescue)); the iteration is counted then, and its
    /// result is [`last_result`](Driver::last_result). Returns [`Error::Stopped`] after [`stop`](Driver::stop).
    pub fn train(&mut self) -> Result<Metrics> {
        self.refuse_if_stopped("train")?;
        if self.log.is_written() {
            self.refuse_other_run()?;
        }
        self.run_dir.note(self.log.dir());
        self.warmup.get_or_insert_with(|| self.constructed.elapsed());
        let started = Instant::now();
        let mut result = self.trainable.step().inspect_err(|_| self.log.failed())?;
        let measured = started.elapsed().as_secs_f64();
        if result.contains_key("__duplicate__") {
            return Ok(result);
        }
        let time_this_iter = seconds(&result, "time_this_iter_s")?.unwrap_or(measured);
        let timesteps = count(&result, "timesteps_this_iter")?;
        let episodes = count(&result, "episodes_this_iter")?;
        self.counters.advance(time_this_iter, timesteps, episodes);
        self.fill(&mut result, time_this_iter);
        let hooked = self.trainable.log_result(&mut result);
        self.last_result = Some(result.clone());
        hooked?;
        self.run_dir.check(self.log.dir())?;
        self.log.on_result(&result, &self.config)?;
        self.logged = self.counters.iteration;
        // The first result makes the directory.
        self.run_dir.note(self.log.dir());
        Ok(result)
    }

    /// Does the same as [`train`](Driver::train): the iteration is counted and logged. So the trainable's own
    /// [`step`](Trainable::step) is not called past the driver, which would count nothing.
    ///
    /// # Errors
    /// Fails whenever [`train`](Driver::train) does.
    pub fn step(&mut self) -> Result<Metrics> {
        self.train()
    }

    /// Continues from a checkpoint, given as a path or a URL.
    ///
    /// The counters, totals and last result become those of the checkpoint; the `*_since_restore` counters start at 0.
    /// The URL of a run stands for the run's newest checkpoint.
    ///
    /// If the checkpoint lies in this run's directory, the logs are rewound to it: later results are removed from them
    /// when the next result is logged. Damaged checkpoints of later iterations are renamed, see
    /// [`checkpoint::set_aside_damaged`].
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if the checkpoint is damaged, not one of this library, or of another kind of
    /// trainable, [`Error::Io`] if it cannot be read, [`Error::Config`] or [`Error::Storage`] if its URL cannot be
    /// used, and [`Error::Stopped`] after [`stop`](Driver::stop); nothing has changed then. Returns the error of
    /// `load_checkpoint`; the counters are unchanged then, and the trainable is in whatever state it left itself.
    /// Returns [`Error::Io`] if a damaged checkpoint cannot be renamed; the run is restored then, but its logs are not
    /// rewound.
    pub fn restore(&mut self, checkpoint: impl AsRef<Path>) -> Result<()> {
        self.refuse_if_stopped("restore")?;
        let checkpoint = &storage::fetch_checkpoint(checkpoint.as_ref())?;
        if let Some(remote) = &self.remote {
            remote.bring_back(checkpoint)?;
        }
        checkpoint::verify(checkpoint, Some(&self.trainable.kind()))?;
        let metadata = checkpoint::metadata(checkpoint)?;
        let is_of_run = is_in(checkpoint, self.log.dir());
        if is_of_run {
            self.log.warn_of_missing(&metadata, &self.trial.trial_id)?;
        }
        self.trainable.load_checkpoint(checkpoint)?;
        self.adopt_resolved_config();
        self.experiment_id = metadata.experiment_id;
        self.counters = Counters {
            iteration: metadata.iteration,
            timesteps_total: metadata.timesteps_total,
            episodes_total: metadata.episodes_total,
            time_total_s: metadata.time_total_s,
            ..Counters::default()
        };
        self.last_result = metadata.last_result;
        self.logged = self.counters.iteration;
        self.restored = true;
        self.is_own_dir = true;
        if is_of_run {
            checkpoint::set_aside_damaged(self.log.dir(), Some(self.counters.iteration))?;
            self.log.rewind(self.counters.iteration);
        }
        tracing::info!("restored iteration {} from {}", self.counters.iteration, checkpoint.display());
        Ok(())
    }

    /// Restarts the logs of a trial that starts from the beginning, in a directory where it may have run before unless the
    /// directory `is_new`.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if a damaged checkpoint cannot be renamed.
    pub(crate) fn begin_again(&mut self, is_new: bool) -> Result<()> {
        self.is_own_dir = true;
        if !is_new {
            checkpoint::set_aside_damaged(self.log.dir(), None)?;
        }
        if self.log.has_own() || (!is_new && self.log.dir().join(crate::loggers::RESULTS_FILE).exists()) {
            self.log.rewind(0);
        }
        Ok(())
    }

    /// Restarts the same object with other settings, without a new `setup`. With `options`, the object becomes another run;
    /// with `None`, it stays in the same run directory and trial.
    ///
    /// Returns `false` if the trainable cannot be reset: nothing has changed, and a new driver is needed.
    ///
    /// # Errors
    /// Returns the error of `reset_config` or of closing a logger, [`Error::Config`] if an option has a value that is
    /// not allowed or the new run directory holds a run that is not to be continued, and [`Error::Stopped`] after
    /// [`stop`](Driver::stop). With a `remote_checkpoint_dir`, returns [`Error::Experiment`] if the old run cannot be uploaded or another driver writes to the new URL, and
    /// [`Error::Storage`] if the storage cannot be used.
    pub fn reset(&mut self, new_config: Config, options: Option<RunOptions>) -> Result<bool> {
        self.refuse_if_stopped("reset")?;
        let kind = self.trainable.kind();
        let run = options.map(|options| Ok::<_, Error>((options.trial(&kind)?, options))).transpose()?;
        if let Some((trial, options)) = &run
            && options.resume == Resume::Never
        {
            refuse_used(&trial.logdir)?;
        }
        if !self.trainable.reset_config(&new_config)? {
            return Ok(false);
        }
        self.config = new_config;
        self.adopt_resolved_config();
        self.counters = Counters::default();
        self.logged = 0;
        self.restored = false;
        self.last_result = None;
        match run {
            None => self.log.reopen()?,
            Some((trial, options)) => {
                self.trial = trial;
                self.usage = sys_usage(&self.config, &options);
                self.retention = Retention::new(options.keep_checkpoints_num, &options.checkpoint_score_attr);
                if let Some(mut remote) = self.remote.take() {
                    remote.finish()?;
                }
                self.remote = RunUpload::start(&options, &self.trial.logdir, &self.retention)?;
                let next = RunLog::new(self.trial.clone(), options.loggers, options.hparams);
                std::mem::replace(&mut self.log, next).close()?;
                self.is_own_dir = false;
                if options.resume == Resume::IfThere {
                    self.resume()?;
                }
            }
        }
        Ok(true)
    }

    /// Closes the loggers, lets the trainable clean up, and waits until everything is uploaded to
    /// `remote_checkpoint_dir`. Further calls do nothing. Dropping the driver does the same and ignores errors.
    ///
    /// # Errors
    /// Returns the first error of a logger, of `cleanup` or of the upload; all three are tried in any case.
    pub fn stop(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        let closed = self.log.close();
        let cleaned = self.trainable.cleanup();
        let uploaded = self.remote.take().map_or(Ok(()), |mut remote| remote.finish());
        closed.and(cleaned).and(uploaded)
    }

    /// Returns the complete settings.
    pub fn get_config(&self) -> &Config {
        &self.config
    }

    /// Returns the number of results so far, including those before a restored checkpoint.
    pub fn iteration(&self) -> u64 {
        self.counters.iteration
    }

    /// Returns the same number as [`iteration`](Driver::iteration), under its name in results.
    pub fn training_iteration(&self) -> u64 {
        self.counters.iteration
    }

    /// Returns the run directory. It exists from the first result or checkpoint on.
    pub fn logdir(&self) -> &Path {
        self.log.dir()
    }

    /// Fails if the run directory was moved or removed since it was first seen by this method, `train` or `save`. Files of
    /// the loggers that were deleted in it are written again, with a warning.
    ///
    /// # Errors
    /// Returns [`Error::RunDirectory`] if the directory is no longer the same one, with its new path if it was moved, and
    /// [`Error::Io`] if a file cannot be written.
    pub fn check_run_dir(&mut self) -> Result<()> {
        self.run_dir.check(self.log.dir())?;
        self.log.write_missing(&self.config)
    }

    /// Has a file of the run directory written again if it is deleted during the run. The file exists already, with this
    /// content; a later call with the same name replaces the content.
    pub fn keep_file(&mut self, name: &str, content: Vec<u8>) {
        self.log.keep(name, content);
    }

    /// Returns the URL to which the run is uploaded; `None` if the run is only on the local disk.
    pub fn remote_checkpoint_dir(&self) -> Option<&str> {
        self.remote.as_ref().map(RunUpload::url)
    }

    /// Returns the id of the trial; `"default"` outside a sweep.
    pub fn trial_id(&self) -> &str {
        &self.trial.trial_id
    }

    /// Returns the name of the trial; `"default"` outside a sweep.
    pub fn trial_name(&self) -> &str {
        &self.trial.trial_name
    }

    /// Returns the resources that the sweep reserved for this trial; `None` outside a sweep.
    pub fn trial_resources(&self) -> Option<&Resources> {
        self.trial.trial_resources.as_ref()
    }

    /// Returns the newest result, including one from a restored checkpoint.
    pub fn last_result(&self) -> Option<&Metrics> {
        self.last_result.as_ref()
    }

    /// Whether the run continues from a checkpoint.
    pub fn restored(&self) -> bool {
        self.restored
    }

    /// Replaces the settings by the trainable's resolved ones, if it has any.
    fn adopt_resolved_config(&mut self) {
        if let Some(config) = self.trainable.resolved_config() {
            self.config = config;
        }
    }

    fn refuse_if_stopped(&self, action: &'static str) -> Result<()> {
        if self.stopped { Err(Error::Stopped { action }) } else { Ok(()) }
    }
}

/// Starts measuring CPU and memory use if the options or the settings ask for it.
fn sys_usage(config: &Config, options: &RunOptions) -> Option<SysUsage> {
    let asked = options.log_sys_usage || config.get("log_sys_usage") == Some(&Value::Bool(true));
    asked.then(SysUsage::start)
}

impl<T: Trainable> Deref for Driver<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.trainable
    }
}

impl<T: Trainable> DerefMut for Driver<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.trainable
    }
}

impl<T: Trainable> Drop for Driver<T> {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::debug!("while dropping a driver: {error}");
        }
    }
}

impl<T: Trainable> fmt::Debug for Driver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("kind", &self.trainable.kind())
            .field("iteration", &self.counters.iteration)
            .field("logdir", &self.log.dir())
            .finish_non_exhaustive()
    }
}

/// Whether `path` is a direct child of `dir` after symbolic links are resolved.
fn is_in(path: &Path, dir: &Path) -> bool {
    match (path.canonicalize(), dir.canonicalize()) {
        (Ok(path), Ok(dir)) => path.parent() == Some(&dir),
        _ => false,
    }
}
