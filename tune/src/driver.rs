//! What a caller gets around any [`Trainable`]: counting, saving, restoring, logging.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::checkpoint::{self, METADATA, Metadata, Retention};
use crate::node::{self, SysUsage};
use crate::run_log::RunLog;
use crate::{Config, Error, ExportFormat, Metrics, Resources, Result, RunOptions, Trainable, TrialContext};

/// Runs a [`Trainable`]: `train` it, `save` and `restore` it, `stop` it. The trainable's own methods are reached
/// through the driver as well.
///
/// Nothing is written to disk before the first result or checkpoint, and then only into [`logdir`](Driver::logdir)
/// unless another place is named.
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
    hostname: String,
    node_ip: String,
    log: RunLog,
    retention: Retention,
    stopped: bool,
}

#[derive(Clone, Debug, Default)]
struct Counters {
    iteration: u64,
    iterations_since_restore: u64,
    timesteps_total: Option<u64>,
    timesteps_since_restore: u64,
    episodes_total: Option<u64>,
    time_total_s: f64,
    time_since_restore: f64,
}

/// A `setup` that takes longer is worth a hint that objects can be reused.
const SLOW_SETUP: Duration = Duration::from_secs(10);

impl<T: Trainable> Driver<T> {
    /// [`Driver::with`] the default [`RunOptions`].
    ///
    /// # Errors
    /// What `setup` returns.
    pub fn new(trainable: T, config: Config) -> Result<Self> {
        Self::with(trainable, config, RunOptions::default())
    }

    /// Sets the trainable up.
    ///
    /// # Errors
    /// What `setup` returns; [`Error::Config`] for options that cannot be.
    pub fn with(trainable: T, config: Config, options: RunOptions) -> Result<Self> {
        let constructed = Instant::now();
        let trial = options.trial(&trainable.kind())?;
        let log_sys_usage = options.log_sys_usage || config.get("log_sys_usage") == Some(&Value::Bool(true));
        let mut driver = Driver {
            trainable,
            config,
            experiment_id: format!("{:032x}", rand::random::<u128>()),
            counters: Counters::default(),
            restored: false,
            last_result: None,
            constructed,
            warmup: None,
            usage: log_sys_usage.then(SysUsage::start),
            hostname: node::hostname(),
            node_ip: node::node_ip(),
            log: RunLog::new(trial.logdir.clone(), options.loggers),
            retention: Retention::new(options.keep_checkpoints_num, &options.checkpoint_score_attr),
            trial,
            stopped: false,
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
        Ok(driver)
    }

    /// One iteration: steps the trainable, counts, fills in the fields every result has, and logs.
    ///
    /// The user's value stands for `done`, `training_iteration`, `timesteps_total` and `episodes_total`; the driver's
    /// for the rest of [`get_auto_filled_metrics`](Driver::get_auto_filled_metrics). A result with `__duplicate__` is
    /// returned unchanged and counts for nothing.
    ///
    /// # Errors
    /// What `step` returns, and [`Error::Metric`]: no counter has moved then. What `log_result` or a logger returns: the
    /// iteration counts then, and is [`last_result`](Driver::last_result).
    pub fn train(&mut self) -> Result<Metrics> {
        self.refuse_if_stopped("train")?;
        self.warmup.get_or_insert_with(|| self.constructed.elapsed());
        let started = Instant::now();
        let mut result = self.trainable.step()?;
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
        self.log.on_result(&result, &self.config)?;
        Ok(result)
    }

    /// Trains until the time is spent, a result is `done` or wants a checkpoint, or there are `max_len` results; at
    /// least once.
    ///
    /// # Errors
    /// As [`train`](Driver::train); results of before the error were logged but are not returned.
    pub fn train_buffered(&mut self, time: Duration, max_len: usize) -> Result<Vec<Metrics>> {
        let started = Instant::now();
        let mut results = Vec::new();
        loop {
            let result = self.train()?;
            let is_true = |key: &str| result.get(key) == Some(&Value::Bool(true));
            let last =
                is_true("done") || is_true("should_checkpoint") || result.contains_key("__duplicate__");
            results.push(result);
            if last || results.len() >= max_len || started.elapsed() >= time {
                return Ok(results);
            }
        }
    }

    /// Writes the checkpoint `<logdir>/checkpoint_<iteration>` and returns its path; then deletes the checkpoints that
    /// are not to be kept.
    ///
    /// # Errors
    /// As [`checkpoint::write`]; no checkpoint was deleted then.
    pub fn save(&mut self) -> Result<PathBuf> {
        self.log.open(&self.config)?;
        let run_dir = self.log.dir().to_path_buf();
        let path = self.save_to(&run_dir)?;
        self.retention.apply(&run_dir, &path)?;
        Ok(path)
    }

    /// As [`save`](Driver::save), into another directory, where all checkpoints are kept.
    ///
    /// # Errors
    /// As [`checkpoint::write`].
    pub fn save_to(&mut self, parent: &Path) -> Result<PathBuf> {
        self.refuse_if_stopped("save")?;
        let metadata = Metadata {
            experiment_id: self.experiment_id.clone(),
            iteration: self.counters.iteration,
            timesteps_total: self.counters.timesteps_total,
            episodes_total: self.counters.episodes_total,
            time_total_s: self.counters.time_total_s,
            config: self.config.clone(),
            last_result: self.last_result.clone(),
        };
        let target = parent.join(checkpoint::name(self.counters.iteration));
        let kind = self.trainable.kind();
        checkpoint::write(&target, &kind, |dir| {
            self.trainable.save_checkpoint(dir)?;
            let path = dir.join(METADATA);
            if path.exists() {
                return Err(Error::checkpoint(
                    &target,
                    format!("{METADATA} is a reserved name; choose another"),
                ));
            }
            let text = serde_json::to_vec_pretty(&metadata).map_err(Error::other)?;
            fs::write(&path, text).map_err(Error::io("write", &path))
        })
    }

    /// Continues from a checkpoint: counters, totals and last result are those of when it was saved, the
    /// `*_since_restore` ones start at 0.
    ///
    /// If the checkpoint lies in this run's directory, the logs go back with it: results after it are dropped from them
    /// when the next one comes.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if it is damaged, foreign or of another kind: nothing has changed then. What
    /// `load_checkpoint` returns: the counters are unchanged, the trainable is as it left itself.
    pub fn restore(&mut self, checkpoint: &Path) -> Result<()> {
        self.refuse_if_stopped("restore")?;
        checkpoint::verify(checkpoint, Some(&self.trainable.kind()))?;
        let metadata = checkpoint::metadata(checkpoint)?;
        self.trainable.load_checkpoint(checkpoint)?;
        self.experiment_id = metadata.experiment_id;
        self.counters = Counters {
            iteration: metadata.iteration,
            timesteps_total: metadata.timesteps_total,
            episodes_total: metadata.episodes_total,
            time_total_s: metadata.time_total_s,
            ..Counters::default()
        };
        self.last_result = metadata.last_result;
        self.restored = true;
        if is_in(checkpoint, self.log.dir()) {
            self.log.rewind(self.counters.iteration);
        }
        tracing::info!("restored iteration {} from {}", self.counters.iteration, checkpoint.display());
        Ok(())
    }

    /// A checkpoint in memory.
    ///
    /// # Errors
    /// As [`save_to`](Driver::save_to); it passes through the system's temporary directory.
    pub fn save_to_object(&mut self) -> Result<Vec<u8>> {
        let temporary = temporary_dir()?;
        let path = self.save_to(temporary.path())?;
        checkpoint::pack(&path)
    }

    /// [`restore`](Driver::restore) from what [`save_to_object`](Driver::save_to_object) gave.
    ///
    /// # Errors
    /// As [`restore`](Driver::restore).
    pub fn restore_from_object(&mut self, object: &[u8]) -> Result<()> {
        let temporary = temporary_dir()?;
        checkpoint::unpack(object, temporary.path())?;
        self.restore(temporary.path())
    }

    /// Deletes the checkpoint that `path` is, or lies in; without one, nothing happens.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn delete_checkpoint(&self, path: &Path) -> Result<()> {
        match path.ancestors().find(|dir| checkpoint::is_checkpoint(dir)) {
            Some(dir) => checkpoint::remove(dir),
            None => {
                tracing::debug!("no checkpoint to delete at {}", path.display());
                Ok(())
            }
        }
    }

    /// Exports the model into `dir` (the run directory if `None`); formats that the trainable does not have are absent
    /// from the answer.
    ///
    /// # Errors
    /// What the trainable returns; [`Error::Io`].
    pub fn export_model(
        &mut self,
        formats: &[ExportFormat],
        dir: Option<&Path>,
    ) -> Result<BTreeMap<ExportFormat, PathBuf>> {
        self.refuse_if_stopped("export")?;
        let dir = dir.unwrap_or(self.log.dir()).to_path_buf();
        fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
        let mut exported = BTreeMap::new();
        for format in formats {
            if let Some(path) = self.trainable.export_model(*format, &dir)? {
                exported.insert(*format, path);
            }
        }
        Ok(exported)
    }

    /// Starts afresh with other settings in the same object, which saves its setup. With `options` it becomes another
    /// run; with `None` it goes on in the same run directory and trial.
    ///
    /// `false`: the trainable cannot do it; nothing has changed, make a new driver.
    ///
    /// # Errors
    /// What `reset_config` or closing a logger returns.
    pub fn reset(&mut self, new_config: Config, options: Option<RunOptions>) -> Result<bool> {
        self.refuse_if_stopped("reset")?;
        let kind = self.trainable.kind();
        let run = options.map(|options| Ok::<_, Error>((options.trial(&kind)?, options))).transpose()?;
        if !self.trainable.reset_config(&new_config)? {
            return Ok(false);
        }
        self.config = new_config;
        self.adopt_resolved_config();
        self.counters = Counters::default();
        self.restored = false;
        self.last_result = None;
        match run {
            None => self.log.reopen()?,
            Some((trial, options)) => {
                self.trial = trial;
                self.retention = Retention::new(options.keep_checkpoints_num, &options.checkpoint_score_attr);
                let next = RunLog::new(self.trial.logdir.clone(), options.loggers);
                std::mem::replace(&mut self.log, next).close()?;
            }
        }
        Ok(true)
    }

    /// Closes the loggers and lets the trainable clean up, once. Dropping the driver does the same and ignores errors.
    ///
    /// # Errors
    /// The first error of a logger or of `cleanup`; both are done.
    pub fn stop(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        let closed = self.log.close();
        let cleaned = self.trainable.cleanup();
        closed.and(cleaned)
    }

    /// The fields that every result has: `trial_id`, `experiment_id`, `date` (local time), `timestamp` (Unix seconds),
    /// `pid`, `hostname`, `node_ip`, `config`; `time_this_iter_s` if given; and unless `debug_metrics_only`, the
    /// `time_total_s` and `*_since_restore` counters and `warmup_time`.
    ///
    /// `now` of `None` is the present.
    pub fn get_auto_filled_metrics(
        &self,
        now: Option<SystemTime>,
        time_this_iter: Option<f64>,
        debug_metrics_only: bool,
    ) -> Metrics {
        let now = node::local(now.unwrap_or_else(SystemTime::now));
        let mut filled = Metrics::new();
        let mut put = |key: &str, value: Value| filled.insert(key.to_string(), value);
        put("trial_id", json!(self.trial.trial_id));
        put("experiment_id", json!(self.experiment_id));
        put("date", json!(node::date(&now)));
        put("timestamp", json!(now.timestamp().as_second()));
        if let Some(seconds) = time_this_iter {
            put("time_this_iter_s", json!(seconds));
        }
        put("pid", json!(process::id()));
        put("hostname", json!(self.hostname));
        put("node_ip", json!(self.node_ip));
        put("config", Value::Object(self.config.clone()));
        if !debug_metrics_only {
            put("time_total_s", json!(self.counters.time_total_s));
            put("time_since_restore", json!(self.counters.time_since_restore));
            put("timesteps_since_restore", json!(self.counters.timesteps_since_restore));
            put("iterations_since_restore", json!(self.counters.iterations_since_restore));
            put("warmup_time", json!(self.warmup.map(|warmup| warmup.as_secs_f64())));
        }
        filled
    }

    /// Complete settings.
    pub fn get_config(&self) -> &Config {
        &self.config
    }

    /// Results so far, those before a restored checkpoint included.
    pub fn iteration(&self) -> u64 {
        self.counters.iteration
    }

    /// The same as [`iteration`](Driver::iteration), by the name it has in results.
    pub fn training_iteration(&self) -> u64 {
        self.counters.iteration
    }

    /// The run directory. It exists from the first result or checkpoint on.
    pub fn logdir(&self) -> &Path {
        self.log.dir()
    }

    /// `"default"` outside a sweep.
    pub fn trial_id(&self) -> &str {
        &self.trial.trial_id
    }

    /// `"default"` outside a sweep.
    pub fn trial_name(&self) -> &str {
        &self.trial.trial_name
    }

    /// What the sweep reserved for this trial.
    pub fn trial_resources(&self) -> Option<&Resources> {
        self.trial.trial_resources.as_ref()
    }

    /// The newest result, also across a restore.
    pub fn last_result(&self) -> Option<&Metrics> {
        self.last_result.as_ref()
    }

    /// Whether it continues from a checkpoint.
    pub fn restored(&self) -> bool {
        self.restored
    }

    /// Checkpoints in the run directory by iteration.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn checkpoints(&self) -> Result<Vec<(u64, PathBuf)>> {
        checkpoint::list(self.log.dir())
    }

    fn adopt_resolved_config(&mut self) {
        if let Some(config) = self.trainable.resolved_config() {
            self.config = config;
        }
    }

    fn refuse_if_stopped(&self, action: &'static str) -> Result<()> {
        if self.stopped { Err(Error::Stopped { action }) } else { Ok(()) }
    }

    fn fill(&mut self, result: &mut Metrics, time_this_iter: f64) {
        default(result, "done", json!(false));
        default(result, "timesteps_total", json!(self.counters.timesteps_total));
        default(result, "episodes_total", json!(self.counters.episodes_total));
        default(result, "training_iteration", json!(self.counters.iteration));
        if let Some(loss) = result.get("mean_loss").and_then(Value::as_f64).filter(|loss| *loss != 0.0) {
            default(result, "neg_mean_loss", json!(-loss));
        }
        result.extend(self.get_auto_filled_metrics(None, Some(time_this_iter), false));
        if let Some(usage) = &mut self.usage {
            result.insert("perf".into(), usage.read());
        }
    }
}

impl Counters {
    fn advance(&mut self, time_this_iter: f64, timesteps: Option<u64>, episodes: Option<u64>) {
        self.iteration += 1;
        self.iterations_since_restore += 1;
        self.time_total_s += time_this_iter;
        self.time_since_restore += time_this_iter;
        if let Some(timesteps) = timesteps {
            *self.timesteps_total.get_or_insert(0) += timesteps;
            self.timesteps_since_restore += timesteps;
        }
        if let Some(episodes) = episodes {
            *self.episodes_total.get_or_insert(0) += episodes;
        }
    }
}

fn default(result: &mut Metrics, key: &str, value: Value) {
    if !result.contains_key(key) {
        result.insert(key.to_string(), value);
    }
}

/// A reserved key of the result that, if there, is seconds.
fn seconds(result: &Metrics, key: &str) -> Result<Option<f64>> {
    reserved(result, key, "it must be a number of seconds, 0 or more", |value| {
        value.as_f64().filter(|seconds| *seconds >= 0.0)
    })
}

/// A reserved key of the result that, if there, is a count.
fn count(result: &Metrics, key: &str) -> Result<Option<u64>> {
    reserved(result, key, "it must be a whole number, 0 or more", Value::as_u64)
}

fn reserved<V>(
    result: &Metrics,
    key: &str,
    rule: &str,
    read: impl FnOnce(&Value) -> Option<V>,
) -> Result<Option<V>> {
    match result.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Error::Metric { key: key.into(), value: value.to_string(), rule: rule.into() }),
        },
    }
}

fn temporary_dir() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(Error::io("write in", &std::env::temp_dir()))
}

/// Whether `path` stands directly in `dir`, both followed to where they really are.
fn is_in(path: &Path, dir: &Path) -> bool {
    match (path.canonicalize(), dir.canonicalize()) {
        (Ok(path), Ok(dir)) => path.parent() == Some(&dir),
        _ => false,
    }
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
