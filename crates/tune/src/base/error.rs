//! The error type of this crate: each variant names the value at fault and a way to fix it.

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

/// Error of the trainable lifecycle and of sweeps.
///
/// Other crates wrap their own errors in [`Error::Trainable`] with [`Error::other`].
///
/// In a trait of this crate, `?` turns errors of files ([`io::Error`]), of JSON ([`serde_json::Error`]) and any
/// `Box<dyn Error + Send + Sync>` into this error; [`Error::other`] wraps every other one.
///
/// `{:?}` prints the sentence of [`in_words`] and the name of the variant, because a `main` that returns this error prints
/// it with `{:?}`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting whose value breaks its rule.
    #[error("`{key}` is {value}, but {rule}")]
    Config {
        /// Dotted key of the setting.
        key: String,
        /// The invalid value, as JSON or as it was written.
        value: String,
        /// The rule that the value breaks; follows "but" in the message, e.g. "it must be above 0".
        rule: String,
    },
    /// A setting that has no value and needs one.
    #[error("`{key}` is missing: {rule}")]
    Missing {
        /// Dotted key of the setting.
        key: String,
        /// A sentence that tells the user which value to give, e.g. "write the name of a scheduler".
        rule: String,
    },
    /// Several invalid settings, each with its own error.
    #[error("{} settings are refused:{}", .0.len(), in_lines(.0))]
    Refusals(Vec<Error>),
    /// A setting that does not exist.
    #[error("unknown setting `{key}` (from {origin}); {}", way_out(nearest.as_deref(), known))]
    UnknownKey {
        /// Dotted key that was given.
        key: String,
        /// Name of the layer with the key: a file name, `--set`, a preset.
        origin: String,
        /// The most similar dotted key that exists.
        nearest: Option<String>,
        /// Dotted keys that exist on the same level.
        known: Vec<String>,
    },
    /// A text that is not a valid `key=value` assignment.
    #[error("cannot read `{text}` as a setting: {rule}")]
    Assignment {
        /// Text that was given.
        text: String,
        /// The rule that the text breaks.
        rule: String,
    },
    /// A result of [`step`](crate::Trainable::step) in which a reserved key has a value of the wrong type.
    #[error("the result of `step` has `{key}` = {value}, but {rule}")]
    Metric {
        /// The reserved key.
        key: String,
        /// Value of the key as JSON.
        value: String,
        /// The rule that the value breaks; follows "but" in the message.
        rule: String,
    },
    /// A result without a key that a scheduler, stopper or searcher needs.
    #[error("the result{} has no `{key}`, {needed_as}; {}", of_trial(trial_id), in_result(nearest.as_deref(), known))]
    MissingMetric {
        /// The missing key, its parts joined by `/`.
        key: String,
        /// Id of the trial; `default` outside a sweep.
        trial_id: String,
        /// Purpose of the key: `the stop criterion`, `the metric of HyperBandScheduler`.
        needed_as: String,
        /// The most similar key of this result.
        nearest: Option<String>,
        /// All keys of this result.
        known: Vec<String>,
    },
    /// A checkpoint that is damaged, of another format or kind, or not a checkpoint at all.
    #[error("checkpoint {}: {reason}", path.display())]
    Checkpoint {
        /// The checkpoint's directory.
        path: PathBuf,
        /// The file at fault and what is wrong with it.
        reason: String,
    },
    /// An error of the file system.
    #[error("cannot {action} {}: {source}{}", path.display(), room(source))]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Verb for the failed operation, e.g. "write".
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// A row of a dataset that cannot be read.
    #[error("{place}{}: {reason}", in_column(column))]
    Row {
        /// Location of the row: `train.csv:12` (line, counted from 1), or `row 12` (counted from 1) for data in memory.
        place: String,
        /// Name of the column; empty if the error concerns the whole row.
        column: String,
        /// The value, the rule that it breaks, and a way to fix it.
        reason: String,
    },
    /// A dataset whose columns are not the requested ones.
    #[error("dataset: {reason}")]
    Dataset {
        /// The requested columns and the existing ones.
        reason: String,
    },
    /// An error of object storage.
    #[error("cannot {action} {url}: {reason}")]
    Storage {
        /// URL of the object or directory.
        url: String,
        /// Verb for the failed operation, e.g. "write".
        action: &'static str,
        /// The storage's message, and a way to fix the problem.
        reason: String,
        /// Whether a retry may succeed: no connection, service too busy.
        transient: bool,
    },
    /// An export format that does not exist.
    #[error("unknown export format `{given}`; valid formats: checkpoint, model, onnx, h5")]
    ExportFormat {
        /// The format as it was written.
        given: String,
    },
    /// A resource request that no machine could satisfy.
    #[error("resource request {request}: {rule}")]
    Resources {
        /// The request as JSON.
        request: String,
        /// The rule that the request breaks.
        rule: String,
    },
    /// A call on a driver after [`stop`](crate::Driver::stop).
    #[error("cannot {action}: the driver was stopped; build a new one and restore a checkpoint into it")]
    Stopped {
        /// Verb for the refused call, e.g. "train".
        action: &'static str,
    },
    /// A trainable that does not continue at the point where its checkpoint was taken.
    #[error("save and restore do not continue the run: {reason}")]
    SaveRestore {
        /// The difference, with both values.
        reason: String,
    },
    /// An experiment that cannot be run or restored as asked.
    #[error("experiment {}: {reason}", path.display())]
    Experiment {
        /// The experiment's directory.
        path: PathBuf,
        /// The obstacle, and a way to fix it.
        reason: String,
    },
    /// A failed trial in a sweep that ends when a trial fails.
    #[error("trial {trial_id} failed: {message}")]
    TrialFailed {
        /// Id of the failed trial.
        trial_id: String,
        /// The trial's error message.
        message: String,
    },
    /// A worker of a data-parallel trainer that failed and thereby ended the attempt.
    #[error("worker {rank} failed: {message}")]
    WorkerFailed {
        /// Rank of the failed worker.
        rank: usize,
        /// The worker's error message, or how its process ended.
        message: String,
    },
    /// A collective call that needs a worker which has ended.
    #[error("`{call}` needs worker {rank}, which is gone")]
    WorkerLost {
        /// Rank of the worker that has ended.
        rank: usize,
        /// Name of the call, e.g. `all_reduce`.
        call: &'static str,
    },
    /// A trainer whose training failed.
    #[error(
        "training failed: {message}; `{trainer}::restore({path:?})` goes on from its newest checkpoint, and \
         `FailureConfig {{ max_failures, .. }}` in its `run_config` lets it try again by itself"
    )]
    TrainingFailed {
        /// Name of the trainer.
        trainer: String,
        /// The experiment's directory.
        path: PathBuf,
        /// Error message of the trainer or of its training loop.
        message: String,
    },
    /// Error that `session::report` returns in a function trainable when its trial ends; pass it on with `?`.
    #[error("the trial was told to end")]
    TrialStopped,
    /// A run directory that was moved or removed during training.
    #[error("the run directory {} {} during training, so nothing more is saved there; {}", path.display(), fate(moved_to), next(moved_to, rescued))]
    RunDirectory {
        /// Path of the directory when training began.
        path: PathBuf,
        /// Current path of the directory; `None` if it was removed.
        moved_to: Option<PathBuf>,
        /// Directory beside it in which the last state was saved (see [`rescue`](crate::Driver::rescue)).
        rescued: Option<PathBuf>,
    },
    /// An error of the trainable or of another crate.
    #[error(transparent)]
    Trainable {
        /// The original error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", in_words(self), self.variant())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::other(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Error::other(error)
    }
}

impl From<Box<dyn StdError + Send + Sync>> for Error {
    fn from(error: Box<dyn StdError + Send + Sync>) -> Self {
        Error::other(error)
    }
}

/// Formats an error as one sentence: its message, then the messages of those causes that it does not contain yet.
pub fn in_words(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

impl Error {
    /// Wraps the error of another crate; its message is shown unchanged. An error of this type stays what it is.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        error.into().downcast::<Error>().map_or_else(|source| Error::Trainable { source }, |own| *own)
    }

    /// Makes an [`Error::Config`] from a value that can be displayed.
    pub fn config(key: impl Into<String>, value: impl Display, rule: impl Into<String>) -> Self {
        Error::Config { key: key.into(), value: value.to_string(), rule: rule.into() }
    }

    /// Makes an [`Error::Missing`] for the setting `key`.
    pub fn missing(key: impl Into<String>, rule: impl Into<String>) -> Self {
        Error::Missing { key: key.into(), rule: rule.into() }
    }

    /// Combines `errors` into one result; `Ok` if there are none.
    ///
    /// # Errors
    /// Returns a single error as it is, and several as [`Error::Refusals`].
    pub fn all(errors: impl IntoIterator<Item = Error>) -> Result<()> {
        let mut all: Vec<Error> = Vec::new();
        for error in errors {
            match error {
                Error::Refusals(inner) => all.extend(inner),
                other => all.push(other),
            }
        }
        match all.len() {
            0 => Ok(()),
            1 => Err(all.remove(0)),
            _ => Err(Error::Refusals(all)),
        }
    }

    /// Whether a file or a directory was missing: the error, or a cause of it, is one of the file system that says so.
    pub(crate) fn is_of_missing_file(&self) -> bool {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(self);
        while let Some(error) = cause {
            if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
            {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// Returns a function for `map_err` that makes an [`Error::Io`] for the operation `action` (a verb) at `path`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Error::Io { path, action, source }
    }

    /// Makes an [`Error::Experiment`] for the experiment at `path`.
    pub fn experiment(path: &Path, reason: impl Into<String>) -> Self {
        Error::Experiment { path: path.to_path_buf(), reason: reason.into() }
    }

    /// Makes an [`Error::Checkpoint`] for the checkpoint at `path`.
    pub(crate) fn checkpoint(path: &Path, reason: impl Into<String>) -> Self {
        Error::Checkpoint { path: path.to_path_buf(), reason: reason.into() }
    }
}

impl From<pavlov_processes::Error> for Error {
    fn from(error: pavlov_processes::Error) -> Self {
        use pavlov_processes::Error as Process;
        match error {
            Process::Config { key, value, rule } => Error::Config { key, value, rule },
            Process::Io { path, action, source } => Error::Io { path, action, source },
            Process::WorkerLost { rank, call } => Error::WorkerLost { rank, call },
            Process::WorkerFailed { rank, message } => Error::WorkerFailed { rank, message },
            Process::Other(source) => Error::Trainable { source },
            other => Error::other(other),
        }
    }
}

/// Returns advice to append to a message if the file system is full or read-only, or a file is as large as it may be; else
/// an empty text.
pub(crate) fn room(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "; give a directory on a file system that can be written to",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room there, or give a directory on another disk"
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::FBIG.raw_os_error()) => {
            "; raise the limit on the size of files (`ulimit -f`)"
        }
        _ => "",
    }
}

/// Says whether the run directory was moved, and to where, or removed.
fn fate(moved_to: &Option<PathBuf>) -> String {
    match moved_to {
        Some(place) => format!("was moved to {}", place.display()),
        None => "was removed".into(),
    }
}

/// Says how to continue after the run directory was moved or removed.
fn next(moved_to: &Option<PathBuf>, rescued: &Option<PathBuf>) -> String {
    match (rescued, moved_to) {
        (Some(place), _) => format!("its last state was saved in {}: go on from there", place.display()),
        (None, Some(_)) => "go on from its newest checkpoint".into(),
        (None, None) => "begin the run again in a directory that stays".into(),
    }
}

fn in_lines(errors: &[Error]) -> String {
    errors.iter().map(|error| format!("\n  {error}")).collect()
}

/// Names the most similar setting, or else the settings that exist.
fn way_out(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("nearest: `{nearest}`"),
        None if known.is_empty() => "no settings are expected there".into(),
        None if known.len() <= FEW => format!("settings there: {}", known.join(", ")),
        None => format!(
            "no name there is like it; `pavlov config explain ALGORITHM` describes all {} settings there",
            known.len()
        ),
    }
}

/// Largest number of names that an error lists.
const FEW: usize = 12;

fn in_column(column: &str) -> String {
    if column.is_empty() { String::new() } else { format!(", column `{column}`") }
}

/// Names the most similar key of a result, or else the keys that it has.
/// Id and name of the trial outside a sweep.
pub(crate) const NO_TRIAL: &str = "default";

/// Names the trial of a result; nothing outside a sweep, where there are no trials.
fn of_trial(trial_id: &str) -> String {
    if trial_id == NO_TRIAL { String::new() } else { format!(" of trial {trial_id}") }
}

fn in_result(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("nearest: `{nearest}`"),
        None if known.is_empty() => "it has no keys".into(),
        None => format!("it has {}", parts(known).join(", ")),
    }
}

/// Shortens the keys of a result to its top level, without the settings: `key`, or `key/...` for a nested object.
fn parts(known: &[String]) -> Vec<String> {
    let mut parts: Vec<String> = known
        .iter()
        .filter(|key| !key.starts_with("config/"))
        .map(|key| key.split_once('/').map_or(key.clone(), |(part, _)| format!("{part}/...")))
        .collect();
    parts.dedup();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_prints_a_sentence_with_each_cause_once() {
        let io = Error::io("write", "run/result.json".as_ref())(io::Error::other("no space left"));
        assert_eq!(format!("{io:?}"), "cannot write run/result.json: no space left [Io]");
        let error = Error::other(io::Error::other("no space left"));
        assert_eq!(format!("{error:?}"), "no space left [Trainable]");
    }

    #[test]
    fn a_disk_that_takes_nothing_is_named_with_the_way_out() {
        let said =
            |errno: rustix::io::Errno| Error::io("create", "/mnt/run".as_ref())(errno.into()).to_string();
        assert_eq!(
            said(rustix::io::Errno::ROFS),
            "cannot create /mnt/run: Read-only file system (os error 30); give a directory on a file system that can be \
             written to"
        );
        assert_eq!(
            said(rustix::io::Errno::NOSPC),
            "cannot create /mnt/run: No space left on device (os error 28); make room there, or give a directory on \
             another disk"
        );
    }
}
