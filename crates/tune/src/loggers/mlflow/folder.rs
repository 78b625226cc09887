//! Writes results into folders of small text files, which MLflow before 3.13 reads.
//!
//! ```text
//! STORE/EXPERIMENT/meta.yaml
//! STORE/EXPERIMENT/RUN/meta.yaml           status: 1 running, 3 finished
//! STORE/EXPERIMENT/RUN/params/NAME         a setting as text
//! STORE/EXPERIMENT/RUN/tags/NAME
//! STORE/EXPERIMENT/RUN/metrics/NAME        a line for each result: milliseconds, value, step
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    ITERATION, experiment_name, iteration_and_step, known_id, now, parts, run_id, run_name, tags,
    text_of_setting,
};
use crate::base::{Config, Error, Metrics, Result, files, flatten, read_file, replace_file};
use crate::loggers::Logger;
use crate::loggers::tags::tag;
use crate::trainable::TrialContext;

/// Name of the file in the run directory that holds the run's id, under which it is continued.
const ID: &str = "mlflow.json";
/// What MLflow calls the states of a run.
const RUNNING: u8 = 1;
const FINISHED: u8 = 3;
const FAILED: u8 = 4;

/// Writes results into the folders of MLflow's file store, which MLflow before 3.13 reads. Names and steps are those of
/// [`MlflowLogger`](super::MlflowLogger). A resumed run keeps its id.
///
/// ```
/// use pavlov_tune::loggers::MlflowFolderLogger;
/// use pavlov_tune::{LoggerChoice, RunOptions};
///
/// let loggers = LoggerChoice::DefaultAnd(vec![Box::new(MlflowFolderLogger::new("mlruns", "pole"))]);
/// let options = RunOptions { loggers, ..RunOptions::default() };
/// ```
#[derive(Debug)]
pub struct MlflowFolderLogger {
    /// `None` stands for `mlruns` beside the run directory.
    store: Option<PathBuf>,
    /// `None` stands for the name of the sweep's directory.
    experiment: Option<String>,
    run: Option<MlflowRun>,
}

/// An open run.
#[derive(Debug)]
struct MlflowRun {
    dir: PathBuf,
    id: String,
    name: String,
    experiment_id: String,
    started: u64,
    /// Whether results of an earlier process may have to be removed.
    is_fresh: bool,
    has_failed: bool,
    /// Files that are not durable yet.
    written: BTreeSet<PathBuf>,
}

impl MlflowFolderLogger {
    /// Makes a logger for the store in the directory `store`. The run becomes part of the experiment of this name.
    pub fn new(store: impl Into<PathBuf>, experiment: impl Into<String>) -> Self {
        MlflowFolderLogger { store: Some(store.into()), experiment: Some(experiment.into()), run: None }
    }

    /// Makes a logger for the store `mlruns` beside the run directory, which the runs beside it share.
    pub fn beside_run(experiment: impl Into<String>) -> Self {
        MlflowFolderLogger { store: None, experiment: Some(experiment.into()), run: None }
    }

    /// Makes a logger for the trials of a sweep, which form an experiment that is named after the sweep's directory. Without a
    /// `store` it is `mlruns` in that directory.
    pub fn of_sweep(store: Option<PathBuf>) -> Self {
        MlflowFolderLogger { store, experiment: None, run: None }
    }

    /// Returns whether this form has logged the run in the directory `run_dir`.
    pub fn knows(run_dir: &Path) -> bool {
        known_id(&run_dir.join(ID)).is_some()
    }

    /// Creates the experiment unless it is there, and returns its id. The id follows from the name, so that two processes
    /// agree on it.
    fn experiment(name: &str, store: &Path) -> Result<String> {
        let hash = Sha256::digest(name.as_bytes());
        let bytes: [u8; 8] = std::array::from_fn(|i| hash[i]);
        // MLflow's own ids have 18 digits.
        let id =
            format!("{:018}", u64::from_le_bytes(bytes) % 900_000_000_000_000_000 + 100_000_000_000_000_000);
        let dir = store.join(&id);
        let meta = dir.join("meta.yaml");
        if !meta.exists() {
            make_dir(&dir)?;
            let now = now();
            let lines = [
                ("artifact_location", json!(uri(&dir))),
                ("creation_time", json!(now)),
                ("experiment_id", json!(id)),
                ("last_update_time", json!(now)),
                ("lifecycle_stage", json!("active")),
                ("name", json!(name)),
            ];
            // Several processes may begin the experiment at once, so each writes a file of its own and gives it the name.
            let own = dir.join(format!("meta.{:016x}.yaml", rand::random::<u64>()));
            write_yaml(&own, &lines)?;
            fs::rename(&own, &meta).map_err(Error::io("write", &meta))?;
        }
        Ok(id)
    }
}

impl Logger for MlflowFolderLogger {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        let beside = || trial.logdir.parent().unwrap_or(&trial.logdir).join("mlruns");
        let store = self.store.clone().unwrap_or_else(beside);
        let store = std::path::absolute(&store).map_err(Error::io("find the absolute path of", &store))?;
        let experiment_id = Self::experiment(&experiment_name(self.experiment.as_ref(), trial), &store)?;
        let id = run_id(&trial.logdir.join(ID))?;
        let dir = store.join(&experiment_id).join(&id);
        for inner in ["artifacts", "metrics", "params", "tags"] {
            make_dir(&dir.join(inner))?;
        }
        let name = run_name(trial);
        let started = started(&dir.join("meta.yaml")).unwrap_or_else(now);
        let run = MlflowRun {
            dir,
            id,
            name,
            experiment_id,
            started,
            is_fresh: true,
            has_failed: false,
            written: BTreeSet::new(),
        };
        run.write_meta(RUNNING, None)?;
        for (tag, text) in tags(&run.name, &trial.logdir.to_string_lossy()) {
            let path = run.dir.join("tags").join(tag);
            fs::write(&path, text).map_err(Error::io("write", &path))?;
        }
        for (key, value) in flatten(config) {
            let text = text_of_setting(value);
            // They are written again whenever the run goes on, so they need not survive a power cut.
            let write = |path: &Path| fs::write(path, &text).map_err(Error::io("write", path));
            run.write_named("params", &key.replace('/', "."), write)?;
        }
        self.run = Some(run);
        Ok(())
    }

    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        run.has_failed = false;
        let (iteration, step) = iteration_and_step(result);
        if std::mem::take(&mut run.is_fresh) {
            run.cut(iteration.saturating_sub(1))?;
        }
        let now = now();
        run.add(ITERATION, &format!("{now} {iteration} {step}\n"))?;
        for (key, value) in flatten(result) {
            let (Some(tag), Some(number)) = (tag(&key), value.as_f64()) else { continue };
            run.add(&tag, &format!("{now} {number:?} {step}\n"))?;
        }
        Ok(())
    }

    fn rewind(&mut self, iteration: u64) -> Result<()> {
        match &mut self.run {
            Some(run) => run.cut(iteration),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        for path in std::mem::take(&mut run.written) {
            let synced = fs::File::open(&path).and_then(|file| file.sync_data());
            synced.map_err(Error::io("write", &path))?;
        }
        Ok(())
    }

    fn failed(&mut self) {
        if let Some(run) = &mut self.run {
            run.has_failed = true;
        }
    }

    fn close(&mut self) -> Result<()> {
        match self.run.take() {
            Some(run) => run.write_meta(if run.has_failed { FAILED } else { FINISHED }, Some(now())),
            None => Ok(()),
        }
    }
}

impl MlflowRun {
    fn write_meta(&self, status: u8, ended: Option<u64>) -> Result<()> {
        let lines = [
            ("artifact_uri", json!(uri(&self.dir.join("artifacts")))),
            ("end_time", json!(ended)),
            ("entry_point_name", json!("")),
            ("experiment_id", json!(self.experiment_id)),
            ("lifecycle_stage", json!("active")),
            ("run_id", json!(self.id)),
            ("run_name", json!(self.name)),
            ("run_uuid", json!(self.id)),
            ("source_name", json!("")),
            ("source_type", json!(4)),
            ("source_version", json!("")),
            ("start_time", json!(self.started)),
            ("status", json!(status)),
            ("tags", json!([])),
            ("user_id", json!("")),
        ];
        write_yaml(&self.dir.join("meta.yaml"), &lines)
    }

    /// Calls `write` with the file of a name, which may have parts.
    fn write_named(&self, kind: &str, name: &str, write: impl Fn(&Path) -> Result<()>) -> Result<()> {
        let parts = parts(name);
        let top = self.dir.join(kind);
        let path = parts.iter().fold(top.clone(), |path, part| path.join(part));
        let parent = path.parent().unwrap_or(&top);
        // A name that begins with another metric's name would need a folder where that metric's file is.
        if parts.len() > 1 && fs::create_dir_all(parent).is_err() || path.is_dir() {
            return write(&top.join(format!("{}.", parts.join("."))));
        }
        write(&path)
    }

    /// Appends a line to a metric.
    fn add(&mut self, name: &str, line: &str) -> Result<()> {
        let written = std::cell::Cell::new(None);
        self.write_named("metrics", name, |path| {
            let appended = files::append(path)?.write_all(line.as_bytes());
            written.set(Some(path.to_path_buf()));
            appended.map_err(Error::io("write", path))
        })?;
        self.written.extend(written.take());
        Ok(())
    }

    /// Removes the results after `iteration`.
    fn cut(&mut self, iteration: u64) -> Result<()> {
        let metrics = self.dir.join("metrics");
        let column =
            |line: &str, at: usize| line.split(' ').nth(at).and_then(|text| text.parse::<u64>().ok());
        let path = metrics.join(ITERATION);
        let lines = text_of(&path)?;
        // A line that was cut off by a kill has no end and no step.
        let kept = |line: &&str| line.ends_with('\n') && column(line, 1).is_some_and(|of| of <= iteration);
        let last =
            lines.split_inclusive('\n').filter(kept).filter_map(|line| column(line.trim_end(), 2)).max();
        for path in files_below(&metrics)? {
            let lines = text_of(&path)?;
            let stays = |line: &&str| {
                line.ends_with('\n') && column(line.trim_end(), 2).is_some_and(|step| Some(step) <= last)
            };
            let left: String = lines.split_inclusive('\n').filter(stays).collect();
            if left != lines {
                replace_file(&path, left.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// The text of a file; empty if there is none.
fn text_of(path: &Path) -> Result<String> {
    match read_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => Ok(String::from_utf8_lossy(&read.map_err(Error::io("read", path))?).into_owned()),
    }
}

/// All files below a folder.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))?.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())?),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(found)
}

/// The start of a run that an earlier process began.
fn started(meta: &Path) -> Option<u64> {
    let text = text_of(meta).ok()?;
    text.lines().find_map(|line| line.strip_prefix("start_time: ")?.parse().ok())
}

fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::io("create", dir))
}

/// Writes values as YAML, of which JSON is a part.
fn write_yaml(path: &Path, lines: &[(&str, Value)]) -> Result<()> {
    let text: String = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    replace_file(path, text.as_bytes())
}

/// The address of an absolute path.
fn uri(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let shown = path.to_string_lossy();
    let parts = shown
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    format!("file://{}", parts.collect::<String>())
}
