//! Functions with which a function trainable reports results and reads its trial's data while it runs.
//!
//! ```
//! use pavlov_tune::session::{self, Checkpoint};
//! use pavlov_tune::{Config, Result, TrainableFactory};
//! use serde_json::json;
//!
//! fn halve(config: &Config) -> Result<()> {
//!     let start = session::get_checkpoint().map(|checkpoint| checkpoint.to_dict()).transpose()?;
//!     let mut x = match start {
//!         Some(state) => state["x"].as_f64().unwrap_or(1.0),
//!         None => config.get_or("x", 1.0)?,
//!     };
//!     while x > 0.01 {
//!         x /= 2.0;
//!         session::report(json!({"x": x}), Some(Checkpoint::from_dict(json!({"x": x}))))?;
//!     }
//!     Ok(())
//! }
//!
//! let trainable = TrainableFactory::function("halve", halve);
//! ```
//!
//! A function is told to end only when it reports: [`report`] then returns [`Error::TrialStopped`], which it must return,
//! e.g. with `?`. All functions here refer to the trial whose thread calls them.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Once;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::metric::DEFAULT_METRIC;
use crate::base::{Config, Error, Metrics, Resources, Result, files};
use crate::checkpoint;
use crate::trainable::TrialContext;

/// State from which a function trainable can continue: a JSON value or a directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    #[serde(flatten)]
    content: Content,
    /// Metadata in addition to the metadata in the directory; it overrides keys that both have.
    #[serde(default)]
    metadata: Config,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Dict(Value),
    Directory(PathBuf),
}

/// File that holds the state of a [`Checkpoint::from_dict`].
const DICT: &str = "checkpoint.json";
/// File that holds the metadata of [`Checkpoint::get_metadata`], named as in Ray. It is hidden because the directory belongs
/// to the user.
const USER_METADATA: &str = ".metadata.json";

impl Checkpoint {
    /// Creates a checkpoint from a small state in JSON.
    pub fn from_dict(state: impl Into<Value>) -> Self {
        Checkpoint { content: Content::Dict(state.into()), metadata: Config::new() }
    }

    /// Creates a checkpoint from the files in `dir`, subfolders included. [`report`] copies them before it returns, so they
    /// may be changed afterwards.
    ///
    /// A trial's checkpoint on disk is also such a directory, even if it was reported as JSON.
    pub fn from_directory(dir: impl Into<PathBuf>) -> Self {
        Checkpoint { content: Content::Directory(dir.into()), metadata: Config::new() }
    }

    /// Adds `metadata` to the metadata that [`get_metadata`](Checkpoint::get_metadata) returns.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Config) -> Self {
        self.metadata.extend(metadata);
        self
    }

    /// Returns the metadata stored with the state. Keys set on this checkpoint override those of its training.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if the metadata file is damaged or missing from the manifest beside it, and
    /// [`Error::Io`] if it cannot be read.
    pub fn get_metadata(&self) -> Result<Config> {
        let mut metadata = match self.as_directory().map(|dir| dir.join(USER_METADATA)) {
            Some(path) if path.exists() => {
                let text = read_listed(&path)?;
                serde_json::from_slice(&text).map_err(|error| Error::checkpoint(&path, error.to_string()))?
            }
            _ => Config::new(),
        };
        metadata.extend(self.metadata.clone());
        Ok(metadata)
    }

    /// Returns the state as JSON.
    ///
    /// # Errors
    /// Returns [`Error::Io`] or [`Error::Checkpoint`] if the checkpoint is a directory without a JSON state; use
    /// [`as_directory`](Checkpoint::as_directory) for those. Fails if the file with the state is damaged.
    pub fn to_dict(&self) -> Result<Value> {
        match &self.content {
            Content::Dict(state) => Ok(state.clone()),
            Content::Directory(dir) => {
                serde_json::from_slice(&read_listed(&dir.join(DICT))?).map_err(Error::other)
            }
        }
    }

    /// Returns the directory of the checkpoint's files, or `None` for a state in JSON. Read the files before the next
    /// report.
    pub fn as_directory(&self) -> Option<&Path> {
        match &self.content {
            Content::Dict(_) => None,
            Content::Directory(dir) => Some(dir),
        }
    }

    pub(crate) fn write(&self, to: &Path) -> Result<()> {
        let write = |name: &str, text: String| {
            let path = to.join(name);
            fs::write(&path, text).map_err(Error::io("write", &path))
        };
        match &self.content {
            Content::Dict(state) => write(DICT, state.to_string())?,
            Content::Directory(dir) => copy(dir, to)?,
        }
        let metadata = self.get_metadata()?;
        if metadata.is_empty() { Ok(()) } else { write(USER_METADATA, Value::from(metadata).to_string()) }
    }

    /// Reads a checkpoint that [`write`](Checkpoint::write) stored in `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let files = Checkpoint::from_directory(dir);
        let mut entries = fs::read_dir(dir).map_err(Error::io("list", dir))?.flatten();
        if entries.all(|entry| [DICT, USER_METADATA].iter().any(|name| entry.file_name() == *name)) {
            Ok(Checkpoint::from_dict(files.to_dict()?).with_metadata(files.get_metadata()?))
        } else {
            Ok(files)
        }
    }

    /// Returns the same checkpoint with an absolute path, so that it is found from another working directory. A
    /// checkpoint at a URL is downloaded.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if there is no such directory, and the errors of [`fetch_checkpoint`](crate::storage::fetch_checkpoint).
    pub fn with_absolute_paths(&self) -> Result<Self> {
        let Content::Directory(place) = &self.content else { return Ok(self.clone()) };
        let dir = crate::storage::fetch_checkpoint(place)?;
        if !dir.is_dir() {
            return Err(Error::checkpoint(&dir, "there is no such directory"));
        }
        let dir = std::path::absolute(&dir).map_err(Error::io("find the absolute path of", &dir))?;
        Ok(Checkpoint { content: Content::Directory(dir), metadata: self.metadata.clone() })
    }
}

/// Reads a file of a checkpoint. If there is a manifest beside the file, the manifest must list it.
fn read_listed(path: &Path) -> Result<Vec<u8>> {
    checkpoint::refuse_unlisted(
        files::parent(path),
        &path.file_name().unwrap_or_default().to_string_lossy(),
    )?;
    fs::read(path).map_err(Error::io("read", path))
}

/// Copies the files and folders in `from` to `to`, except the manifest and metadata that the driver adds to a checkpoint.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::io("create", to))?;
    for entry in fs::read_dir(from).map_err(Error::io("list", from))? {
        let entry = entry.map_err(Error::io("list", from))?;
        let path = entry.path();
        let target = to.join(entry.file_name());
        let is_ours = [crate::checkpoint::MANIFEST, crate::checkpoint::METADATA]
            .iter()
            .any(|name| entry.file_name() == *name);
        if path.is_dir() {
            copy(&path, &target)?;
        } else if !is_ours {
            fs::copy(&path, &target).map_err(Error::io("copy", &path))?;
        }
    }
    Ok(())
}

/// Message from the function's thread to its trial.
pub(crate) enum Message {
    Report(Metrics, Option<Checkpoint>),
    /// The function has returned.
    End(Result<Option<Metrics>>),
}

/// Data of the trial that [`current`] returns, for crates that run their own loops in a trial.
pub struct Session {
    pub(crate) context: TrialContext,
    pub(crate) reports: Sender<Message>,
    /// Receives one message for each report; closed when the trial ends.
    pub(crate) go_on: Receiver<()>,
    pub(crate) checkpoint: RefCell<Option<Checkpoint>>,
    /// Metadata that is added to every checkpoint.
    pub(crate) metadata: RefCell<Config>,
    pub(crate) since: RefCell<Instant>,
    /// Settings that the function was called with.
    pub(crate) config: Config,
    /// Rank and sockets of this worker if the function runs in a worker of the trial; otherwise `None`.
    pub worker: Option<Worker>,
}

type Check = dyn Fn() -> Result<()>;

/// The place of a worker among the workers of its trial.
pub struct Worker {
    /// Rank of the worker, from 0.
    pub rank: usize,
    /// Sockets to the other workers, ordered by rank, until they are taken.
    pub peers: RefCell<Vec<OwnedFd>>,
    /// Rank among the workers on the same machine, from 0.
    pub local_rank: usize,
    /// Number of the worker's machine. Machines with workers are numbered in the order of their lowest rank.
    pub node_rank: usize,
    /// Function called before each report; it checks that all workers report.
    pub before_report: RefCell<Option<Rc<Check>>>,
}

impl Worker {
    fn check(&self, checkpoint: Option<&Checkpoint>) -> Result<()> {
        if self.rank > 0 && checkpoint.is_some() {
            let rule = "checkpoints are those of worker 0: report `None` elsewhere, and send what it has to save to worker \
                        0 by `all_gather`";
            return Err(Error::config("checkpoint", format!("reported by worker {}", self.rank), rule));
        }
        let before_report = self.before_report.borrow().clone();
        before_report.map_or(Ok(()), |check| check())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("context", &self.context).finish_non_exhaustive()
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("rank", &self.rank).finish_non_exhaustive()
    }
}

thread_local! {
    static SESSION: RefCell<Option<Rc<Session>>> = const { RefCell::new(None) };
}

pub(crate) fn enter(session: Session) {
    SESSION.set(Some(Rc::new(session)));
}

/// Ends the session of this thread, which may get another one.
pub(crate) fn leave() {
    SESSION.set(None);
}

/// Returns the session of the trial whose thread calls this; `None` outside a trial.
pub fn current() -> Option<Rc<Session>> {
    SESSION.with_borrow(Clone::clone)
}

/// Reports a result, then waits until the sweep asks for the next one. `checkpoint` is the state right after this result.
/// `metrics` is a JSON object, or a number, which becomes `{"_metric": number}`.
///
/// Outside a trial, it does nothing, and logs a warning the first time.
///
/// # Errors
/// Returns [`Error::TrialStopped`] if the trial must end; return it from the function, e.g. with `?`. Returns
/// [`Error::Metric`] if `metrics` is neither an object nor a finite number, and [`Error::Checkpoint`] or [`Error::Io`] if
/// the checkpoint's metadata cannot be read. With several workers, returns [`Error::Config`] if a worker other than 0
/// reports a checkpoint, and fails if not all workers report.
pub fn report(metrics: impl Into<Value>, checkpoint: Option<Checkpoint>) -> Result<()> {
    let mut metrics = into_metrics(metrics.into())?;
    let Some(session) = current() else {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing::warn!("`session::report` outside a trial does nothing"));
        return Ok(());
    };
    if let Some(worker) = &session.worker {
        worker.check(checkpoint.as_ref())?;
    }
    let seconds = session.since.borrow().elapsed().as_secs_f64();
    metrics.entry("time_this_iter_s").or_insert(seconds.into());
    let checkpoint = match checkpoint {
        Some(mut checkpoint) => {
            let own = checkpoint.get_metadata()?;
            checkpoint.metadata = session.metadata.borrow().clone();
            checkpoint.metadata.extend(own);
            session.checkpoint.replace(Some(checkpoint.clone()));
            Some(checkpoint)
        }
        None => None,
    };
    session.reports.send(Message::Report(metrics, checkpoint)).map_err(|_| Error::TrialStopped)?;
    session.go_on.recv().map_err(|_| Error::TrialStopped)?;
    session.since.replace(Instant::now());
    Ok(())
}

/// Converts a value that a function reported or returned to metrics.
pub(crate) fn into_metrics(value: Value) -> Result<Metrics> {
    match value {
        Value::Object(metrics) => Ok(metrics.into()),
        Value::Number(_) => Ok(Metrics::from([(DEFAULT_METRIC, value)])),
        other => Err(Error::Metric {
            key: "report".into(),
            value: other.to_string(),
            rule: "it must be an object of metrics, or one number".into(),
        }),
    }
}

/// Returns the checkpoint to continue from: the last one that the function reported, otherwise the one that the trial was
/// started with. `None` if there is no checkpoint, or outside a trial.
pub fn get_checkpoint() -> Option<Checkpoint> {
    current()?.checkpoint.borrow().clone()
}

/// Begins a training loop: `metadata` goes into all checkpoints from now on, and `resume_from` is the checkpoint to
/// continue from if the trial has none.
pub fn begin(metadata: Config, resume_from: Option<Checkpoint>) {
    let Some(session) = current() else { return };
    session.metadata.replace(metadata);
    let own = session.checkpoint.borrow_mut().take();
    session.checkpoint.replace(own.or(resume_from));
}

/// Returns the metadata that the training adds to all its checkpoints; empty outside a trial.
pub fn get_metadata() -> Config {
    current().map_or_else(Config::new, |session| session.metadata.borrow().clone())
}

/// Returns the id of the trial; `None` outside a trial.
pub fn get_trial_id() -> Option<String> {
    Some(current()?.context.trial_id.clone())
}

/// Returns the name of the trial; `None` outside a trial.
pub fn get_trial_name() -> Option<String> {
    Some(current()?.context.trial_name.clone())
}

/// Returns the resources that the sweep reserved for the trial; `None` outside a sweep.
pub fn get_trial_resources() -> Option<Resources> {
    current()?.context.trial_resources.clone()
}

/// Returns the trial's directory and creates it if necessary; `None` outside a trial.
pub fn get_trial_dir() -> Option<PathBuf> {
    let dir = current()?.context.logdir.clone();
    fs::create_dir_all(&dir).ok()?;
    Some(dir)
}
