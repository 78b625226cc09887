//! What a function trainable says and asks while it runs.
//!
//! ```
//! use pavlov_tune::session::{self, Checkpoint};
//! use pavlov_tune::{Config, Result, TrainableFactory};
//! use serde_json::json;
//!
//! fn halve(config: &Config) -> Result<()> {
//!     let start = session::get_checkpoint().map(|checkpoint| checkpoint.to_dict()).transpose()?;
//!     let mut x = start.map_or(config["x"].as_f64(), |state| state["x"].as_f64()).unwrap_or(1.0);
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
//! A function may only be told to end while it reports: [`report`] then returns [`Error::TrialStopped`], to be handed up
//! with `?`. These functions speak of the trial in whose thread they are called.

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

use crate::metric::DEFAULT_METRIC;
use crate::{Config, Error, Metrics, Resources, Result, TrialContext, checkpoint, files};

/// State that a function goes on from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    #[serde(flatten)]
    content: Content,
    /// Beside that of its directory; its keys win.
    #[serde(default)]
    metadata: Config,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Dict(Value),
    Directory(PathBuf),
}

/// The file of a [`Checkpoint::from_dict`].
const DICT: &str = "checkpoint.json";
/// The file of [`Checkpoint::get_metadata`]; hidden, because the directory is the user's. Ray's name.
const USER_METADATA: &str = ".metadata.json";

impl Checkpoint {
    /// A checkpoint of a small state in JSON.
    pub fn from_dict(state: impl Into<Value>) -> Self {
        Checkpoint { content: Content::Dict(state.into()), metadata: Config::new() }
    }

    /// A checkpoint of the files in `dir`, folders included. They are copied while [`report`] waits, and may be changed
    /// after it.
    ///
    /// A trial's checkpoint on disk is such a directory too, also if it was reported as JSON.
    pub fn from_directory(dir: impl Into<PathBuf>) -> Self {
        Checkpoint { content: Content::Directory(dir.into()), metadata: Config::new() }
    }

    /// Adds to what [`get_metadata`](Checkpoint::get_metadata) gives.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Config) -> Self {
        self.metadata.extend(metadata);
        self
    }

    /// What was written beside the state: the metadata of the training that reported it, and its own over that.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if the file with the metadata is damaged or not listed in the manifest beside it,
    /// and [`Error::Io`] if it cannot be read.
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

    /// The state as JSON.
    ///
    /// # Errors
    /// Returns [`Error::Io`] or [`Error::Checkpoint`] if the checkpoint is a directory of other files, which
    /// [`as_directory`](Checkpoint::as_directory) gives. Fails if its file is damaged.
    pub fn to_dict(&self) -> Result<Value> {
        match &self.content {
            Content::Dict(state) => Ok(state.clone()),
            Content::Directory(dir) => {
                serde_json::from_slice(&read_listed(&dir.join(DICT))?).map_err(Error::other)
            }
        }
    }

    /// Where its files are; `None` for a state in JSON. Read them before the next report.
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
        match metadata.is_empty() {
            true => Ok(()),
            false => write(USER_METADATA, Value::Object(metadata).to_string()),
        }
    }

    /// What [`write`](Checkpoint::write) left in `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let files = Checkpoint::from_directory(dir);
        let mut entries = fs::read_dir(dir).map_err(Error::io("list", dir))?.flatten();
        match entries.all(|entry| [DICT, USER_METADATA].iter().any(|name| entry.file_name() == *name)) {
            true => Ok(Checkpoint::from_dict(files.to_dict()?).with_metadata(files.get_metadata()?)),
            false => Ok(files),
        }
    }

    /// The same checkpoint with an absolute path, to be found from another working directory; what a URL names is
    /// downloaded.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if there is no such directory, and what [`fetch`](crate::checkpoint::fetch)
    /// returns.
    pub fn with_absolute_paths(&self) -> Result<Self> {
        let Content::Directory(place) = &self.content else { return Ok(self.clone()) };
        let dir = crate::checkpoint::fetch(place)?;
        if !dir.is_dir() {
            return Err(Error::checkpoint(&dir, "there is no such directory"));
        }
        let dir = std::path::absolute(&dir).map_err(Error::io("find the absolute path of", &dir))?;
        Ok(Checkpoint { content: Content::Directory(dir), metadata: self.metadata.clone() })
    }
}

/// A file beside a manifest must be listed in it.
fn read_listed(path: &Path) -> Result<Vec<u8>> {
    checkpoint::refuse_unlisted(
        files::parent(path),
        &path.file_name().unwrap_or_default().to_string_lossy(),
    )?;
    fs::read(path).map_err(Error::io("read", path))
}

/// Files and folders of `from` into `to`, without what the driver of a checkpoint adds.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::io("create", to))?;
    for entry in fs::read_dir(from).map_err(Error::io("list", from))? {
        let entry = entry.map_err(Error::io("list", from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
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

/// What the function's thread sends.
pub(crate) enum Message {
    Report(Metrics, Option<Checkpoint>),
    /// It returned.
    End(Result<Option<Metrics>>),
}

/// What [`current`] knows of the trial, for crates that run loops of their own in it.
pub struct Session {
    pub(crate) context: TrialContext,
    pub(crate) reports: Sender<Message>,
    /// One for each report; closed when the trial ends.
    pub(crate) go_on: Receiver<()>,
    pub(crate) checkpoint: RefCell<Option<Checkpoint>>,
    /// Goes into every checkpoint.
    pub(crate) metadata: RefCell<Config>,
    pub(crate) since: RefCell<Instant>,
    /// What the function was called with.
    pub(crate) config: Config,
    /// In a worker of the trial.
    pub worker: Option<Worker>,
}

type Check = dyn Fn() -> Result<()>;

/// The place of a worker among the workers of its trial.
pub struct Worker {
    /// Its number, from 0.
    pub rank: usize,
    /// The sockets to the others, by rank, until they are taken.
    pub peers: RefCell<Vec<OwnedFd>>,
    /// Its number among the workers of its machine.
    pub local_rank: usize,
    /// The number of its machine among those that have workers, in the order of their first ranks.
    pub node_rank: usize,
    /// Makes sure that all workers report.
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

/// The session of the trial in whose thread this is called; `None` outside a trial.
pub fn current() -> Option<Rc<Session>> {
    SESSION.with_borrow(Clone::clone)
}

/// Hands a result over, with a checkpoint that stands for the state right after it, and waits until the sweep wants the
/// next one. `metrics`: a JSON object, or a number, which becomes `{"_metric": number}`.
///
/// Outside a trial it does nothing, and says so once.
///
/// # Errors
/// Returns [`Error::TrialStopped`] if the trial is to end, to be handed up with `?`. Returns [`Error::Metric`] if
/// `metrics` is neither an object nor a finite number, and [`Error::Checkpoint`] or [`Error::Io`] if the checkpoint's
/// metadata cannot be read. Among several workers, returns [`Error::Config`] if a worker other than 0 reports a
/// checkpoint, and fails if the workers do not all report.
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

/// What a function may report or return.
pub(crate) fn into_metrics(value: Value) -> Result<Metrics> {
    match value {
        Value::Object(metrics) => Ok(metrics),
        Value::Number(_) => Ok(Metrics::from_iter([(DEFAULT_METRIC.to_string(), value)])),
        other => Err(Error::Metric {
            key: "report".into(),
            value: other.to_string(),
            rule: "it must be an object of metrics, or one number".into(),
        }),
    }
}

/// The checkpoint to go on from: the one that the trial was started with, or the last one reported since.
pub fn get_checkpoint() -> Option<Checkpoint> {
    current()?.checkpoint.borrow().clone()
}

/// Begins a training loop: `metadata` goes into all checkpoints from now on, and `resume_from` is the checkpoint to go on
/// from if the trial has none.
pub fn begin(metadata: Config, resume_from: Option<Checkpoint>) {
    let Some(session) = current() else { return };
    session.metadata.replace(metadata);
    let own = session.checkpoint.borrow_mut().take();
    session.checkpoint.replace(own.or(resume_from));
}

/// The metadata of the training; empty outside one.
pub fn get_metadata() -> Config {
    current().map_or_else(Config::new, |session| session.metadata.borrow().clone())
}

/// The id of the trial; `None` outside a trial.
pub fn get_trial_id() -> Option<String> {
    Some(current()?.context.trial_id.clone())
}

/// The name of the trial; `None` outside a trial.
pub fn get_trial_name() -> Option<String> {
    Some(current()?.context.trial_name.clone())
}

/// The resources that the sweep reserved for the trial; `None` outside a sweep.
pub fn get_trial_resources() -> Option<Resources> {
    current()?.context.trial_resources.clone()
}

/// The trial's directory, made if need be; `None` outside a trial.
pub fn get_trial_dir() -> Option<PathBuf> {
    let dir = current()?.context.logdir.clone();
    fs::create_dir_all(&dir).ok()?;
    Some(dir)
}
