//! Errors of SQLite, with the name of the file and the way out.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::base::Error;

/// Maximum time to wait until other programs have written.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a function for `map_err` that makes an error of the file at `path`.
pub(super) fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> Error + '_ {
    move |error| {
        let reason = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => io::Error::new(ErrorKind::StorageFull, error),
            Some(ErrorCode::DatabaseBusy) => io::Error::other(format!(
                "another program has been writing to it for {} s: end that program, or name another file in MLFLOW_TRACKING_URI",
                PATIENCE.as_secs()
            )),
            Some(ErrorCode::CannotOpen) if path.is_dir() => {
                io::Error::other("it is a folder; name a file in it, or use `mlflow-folder`")
            }
            Some(ErrorCode::CannotOpen) if path.is_symlink() => {
                io::Error::other("it is a link; name the file to which it leads")
            }
            Some(ErrorCode::NotADatabase) => io::Error::other(
                "it is no SQLite file; name another file in MLFLOW_TRACKING_URI, or use `mlflow-folder` for a folder",
            ),
            _ => io::Error::other(error),
        };
        Error::io("write", path)(reason)
    }
}

/// Makes an error of the file at `path`.
pub(super) fn refusal(path: &Path, reason: String) -> Error {
    Error::io("write", path)(io::Error::other(reason))
}
