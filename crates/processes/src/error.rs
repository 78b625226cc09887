//! The error type of this crate.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Error of starting another process, or of the connection to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting whose value breaks its rule.
    #[error("`{key}` is {value}, but {rule}")]
    Config {
        /// Name of the setting or of the environment variable.
        key: String,
        /// The invalid value.
        value: String,
        /// The rule that the value breaks; follows "but" in the message, e.g. "it must be an IP address".
        rule: String,
    },
    /// An error of the file system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Verb for the failed operation, e.g. "open".
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another worker of a group has ended.
    #[error("`{call}` needs worker {rank}, which is gone")]
    WorkerLost {
        /// Rank of the worker that has ended.
        rank: usize,
        /// Call that waited for the worker.
        call: &'static str,
    },
    /// A worker of a group that failed and thereby ended the group.
    #[error("worker {rank} failed: {message}")]
    WorkerFailed {
        /// Rank of the failed worker.
        rank: usize,
        /// The worker's error message, or how its process ended.
        message: String,
    },
    /// Any other error, shown unchanged.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an error that has no variant of its own.
    pub(crate) fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Other(error.into())
    }

    /// Makes an [`Error::Config`] from a value that can be displayed.
    pub(crate) fn config(key: &str, value: impl Display, rule: impl Into<String>) -> Self {
        Error::Config { key: key.into(), value: value.to_string(), rule: rule.into() }
    }

    /// Returns a function for `map_err` that makes an [`Error::Io`] for the operation `action` (a verb) at `path`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Error::Io { path, action, source }
    }
}
