//! The file `error.txt` with the failures of a trial.

use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use crate::base::{Error, Result, files, node};

pub(super) const FILE: &str = "error.txt";

/// Appends one failure with its date to `error.txt` in `dir`.
pub(super) fn write(dir: &Path, message: &str) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    let path = dir.join(FILE);
    let mut file = files::append(&path)?;
    let line = format!("{} {message}\n", node::date(&node::local(SystemTime::now())));
    file.write_all(line.as_bytes()).map_err(Error::io("write", &path))
}
