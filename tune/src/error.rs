//! Everything that can go wrong in this crate, each with the value at fault and the way out.

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

/// The error of the trainable lifecycle.
///
/// Crates above put their own errors into [`Error::Trainable`] with [`Error::other`].
///
/// `{:?}` prints the error [`in_words`]: that is what a `main` which returns this error prints.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting whose value breaks its rule.
    #[error("`{key}` is {value}, but {rule}")]
    Config {
        /// Dotted key.
        key: String,
        /// The value as JSON or as it was written.
        value: String,
        /// Reads on after "but", e.g. "it must be above 0".
        rule: String,
    },
    /// A setting that has no value and needs one.
    #[error("`{key}` is missing: {rule}")]
    Missing {
        /// Dotted key.
        key: String,
        /// A sentence about what to give, e.g. "write the name of a scheduler".
        rule: String,
    },
    /// Several settings that cannot be, each with its own error.
    #[error("{} settings are refused:{}", .0.len(), in_lines(.0))]
    Refusals(Vec<Error>),
    /// A setting that does not exist.
    #[error("unknown setting `{key}` (from {origin}); {}", way_out(nearest.as_deref(), known))]
    UnknownKey {
        /// Dotted key.
        key: String,
        /// The layer that brought it: a file name, `--set`, a preset.
        origin: String,
        /// The existing dotted key most like it.
        nearest: Option<String>,
        /// Dotted keys that exist at its level.
        known: Vec<String>,
    },
    /// A `key=value` text that cannot be read.
    #[error("cannot read `{text}` as a setting: {rule}")]
    Assignment {
        /// The text as it was written.
        text: String,
        /// What it should look like.
        rule: String,
    },
    /// A result of [`step`](crate::Trainable::step) with a reserved key of the wrong kind.
    #[error("the result of `step` has `{key}` = {value}, but {rule}")]
    Metric {
        /// The reserved key.
        key: String,
        /// Its value as JSON.
        value: String,
        /// Reads on after "but".
        rule: String,
    },
    /// A result without a key that a scheduler, stopper or searcher needs.
    #[error("the result of trial {trial_id} has no `{key}`, {needed_as}; {}", in_result(nearest.as_deref(), known))]
    MissingMetric {
        /// The key, parts joined by `/`.
        key: String,
        /// The trial.
        trial_id: String,
        /// What it is needed as: `the stop criterion`, `the metric of HyperBandScheduler`.
        needed_as: String,
        /// The key of this result most like it.
        nearest: Option<String>,
        /// The keys of this result.
        known: Vec<String>,
    },
    /// A checkpoint that is damaged, foreign, or not one at all.
    #[error("checkpoint {}: {reason}", path.display())]
    Checkpoint {
        /// The checkpoint's directory.
        path: PathBuf,
        /// The file at fault and what is wrong with it.
        reason: String,
    },
    /// The file system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), room(source.kind()))]
    Io {
        /// What was touched.
        path: PathBuf,
        /// Verb, e.g. "write".
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A row of a dataset that cannot be read.
    #[error("{place}{}: {reason}", in_column(column))]
    Row {
        /// Where the row is: `train.csv:12` (a line, counted from 1), or `row 12` (counted from 1) of what is in
        /// memory.
        place: String,
        /// The column; empty where it is the whole row.
        column: String,
        /// The value, the rule and the way out.
        reason: String,
    },
    /// Rows whose columns are not what is asked for.
    #[error("dataset: {reason}")]
    Dataset {
        /// What is asked for, what there is.
        reason: String,
    },
    /// Object storage that cannot be used or reached.
    #[error("cannot {action} {url}: {reason}")]
    Storage {
        /// The URL of the object or the place.
        url: String,
        /// Verb, e.g. "write".
        action: &'static str,
        /// What the storage said, and the way out.
        reason: String,
        /// Whether trying again may help: no connection, too busy.
        transient: bool,
    },
    /// An export format that does not exist.
    #[error("unknown export format `{given}`; valid formats: checkpoint, model, onnx, h5")]
    ExportFormat {
        /// The format as it was written.
        given: String,
    },
    /// A resource request that no machine could meet.
    #[error("resource request {request}: {rule}")]
    Resources {
        /// The request as JSON.
        request: String,
        /// What a request must look like.
        rule: String,
    },
    /// A call on a driver after [`stop`](crate::Driver::stop).
    #[error("cannot {action}: the driver was stopped; build a new one and restore a checkpoint into it")]
    Stopped {
        /// Verb, e.g. "train".
        action: &'static str,
    },
    /// A trainable that does not continue where its checkpoint was taken.
    #[error("save and restore do not continue the run: {reason}")]
    SaveRestore {
        /// What differed, with both values.
        reason: String,
    },
    /// An experiment that cannot be run or restored as asked.
    #[error("experiment {}: {reason}", path.display())]
    Experiment {
        /// The experiment's directory.
        path: PathBuf,
        /// What stands in the way, and the way out.
        reason: String,
    },
    /// A trial that failed, where a failure ends the sweep.
    #[error("trial {trial_id} failed: {message}")]
    TrialFailed {
        /// The trial that failed.
        trial_id: String,
        /// What the trial said.
        message: String,
    },
    /// A worker of a data-parallel trainer that failed; it ended the attempt.
    #[error("worker {rank} failed: {message}")]
    WorkerFailed {
        /// The worker that failed.
        rank: usize,
        /// What the worker said, or how its process ended.
        message: String,
    },
    /// A worker is gone that a collective call needs.
    #[error("`{call}` needs worker {rank}, which is gone")]
    WorkerLost {
        /// The worker that is gone.
        rank: usize,
        /// The call: `all_reduce`.
        call: &'static str,
    },
    /// A training that failed.
    #[error(
        "training failed: {message}; `{trainer}::restore({path:?})` goes on from its newest checkpoint, and \
         `FailureConfig {{ max_failures, .. }}` in its `run_config` lets it try again by itself"
    )]
    TrainingFailed {
        /// The name of the trainer.
        trainer: String,
        /// The experiment's directory.
        path: PathBuf,
        /// What the trainer or its loop said.
        message: String,
    },
    /// The error of `session::report` in a function trainable whose trial ends: hand it up with `?`.
    #[error("the trial was told to end")]
    TrialStopped,
    /// The run directory is not where it was when training began.
    #[error("the run directory {} {} during training, so nothing more is saved; {}", path.display(), fate(moved_to), next(moved_to))]
    RunDirectory {
        /// Where it was.
        path: PathBuf,
        /// Where it is now; `None`: it was removed.
        moved_to: Option<PathBuf>,
    },
    /// An error of the trainable itself.
    #[error(transparent)]
    Trainable {
        /// The error as the trainable's crate made it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_words(self))
    }
}

/// An error as a sentence: its text, then those of its causes that the text does not name yet.
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
    /// Wraps the error of another crate; its message is shown unchanged.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Trainable { source: error.into() }
    }

    /// [`Error::Config`] from anything that can be shown.
    pub fn config(key: impl Into<String>, value: impl Display, rule: impl Into<String>) -> Self {
        Error::Config { key: key.into(), value: value.to_string(), rule: rule.into() }
    }

    /// [`Error::Missing`] of the setting `key`.
    pub fn missing(key: impl Into<String>, rule: impl Into<String>) -> Self {
        Error::Missing { key: key.into(), rule: rule.into() }
    }

    /// Makes one result of `errors`: `Ok` if there are none.
    ///
    /// # Errors
    /// Returns the error if there is one, and all of them as [`Error::Refusals`] if there are several.
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

    /// Makes an [`Error::Io`] at `path` while trying to `action`, for `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Error::Io { path, action, source }
    }

    /// [`Error::Experiment`] of the experiment at `path`.
    pub fn experiment(path: &Path, reason: impl Into<String>) -> Self {
        Error::Experiment { path: path.to_path_buf(), reason: reason.into() }
    }

    pub(crate) fn checkpoint(path: &Path, reason: impl Into<String>) -> Self {
        Error::Checkpoint { path: path.to_path_buf(), reason: reason.into() }
    }
}

/// The way out where the file system takes nothing.
pub(crate) fn room(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ReadOnlyFilesystem => "; give a directory on a file system that can be written to",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room there, or give a directory on another disk"
        }
        _ => "",
    }
}

fn fate(moved_to: &Option<PathBuf>) -> String {
    match moved_to {
        Some(place) => format!("was moved to {}", place.display()),
        None => "was removed".into(),
    }
}

fn next(moved_to: &Option<PathBuf>) -> &'static str {
    match moved_to {
        Some(_) => "go on from its newest checkpoint there",
        None => "begin the run again in a directory that stays",
    }
}

fn in_lines(errors: &[Error]) -> String {
    errors.iter().map(|error| format!("\n  {error}")).collect()
}

fn way_out(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("nearest: `{nearest}`"),
        None if known.is_empty() => "no settings are expected there".into(),
        None => format!("settings there: {}", known.join(", ")),
    }
}

fn in_column(column: &str) -> String {
    if column.is_empty() { String::new() } else { format!(", column `{column}`") }
}

fn in_result(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("nearest: `{nearest}`"),
        None if known.is_empty() => "it has no keys".into(),
        None => format!("it has {}", parts(known).join(", ")),
    }
}

/// The parts of a result, settings aside: a key of the result itself, or `part/...` for those below one.
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
        assert_eq!(format!("{io:?}"), "cannot write run/result.json: no space left");
        let error = Error::other(io);
        assert_eq!(format!("{error:?}"), "cannot write run/result.json: no space left");
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
