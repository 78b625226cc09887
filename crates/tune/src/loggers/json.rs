//! Writes and reads `result.json`: every result, one JSON object per line.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::Logger;
use super::from_end::LinesFromEnd;
use crate::base::{Error, Metrics, Result, files};

/// File name of the results in a run directory.
pub(crate) const FILE: &str = "result.json";

/// Appends each result to `result.json`.
#[derive(Debug)]
pub struct JsonLogger {
    path: PathBuf,
    file: File,
    /// Length of the file in bytes after the last write; `None` after another program changed it and that was told.
    length: Option<u64>,
}

impl JsonLogger {
    /// Continues the file in `run_dir`, or creates it. An incomplete last line, left by a killed process, is cut off.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file cannot be opened, read or written, or if it is a symbolic link.
    pub fn open(run_dir: &Path) -> Result<Self> {
        let path = run_dir.join(FILE);
        let file = files::append(&path)?;
        let mut length = file.metadata().map_err(Error::io("read", &path))?.len();
        if length > 0 {
            let last = LinesFromEnd::open(&path).and_then(|mut lines| lines.next());
            if let Some((start, line)) = last.map_err(unreadable(&path))?
                && !line.ends_with(b"\n")
            {
                tracing::warn!("cut a broken line of {} bytes off {}", line.len(), path.display());
                file.set_len(start).map_err(Error::io("write", &path))?;
                length = start;
            }
        }
        Ok(JsonLogger { path, file, length: Some(length) })
    }
}

impl Logger for JsonLogger {
    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        let mut line = serde_json::to_vec(result).map_err(Error::other)?;
        line.push(b'\n');
        files::refuse_too_large(&line).map_err(Error::io("write", &self.path))?;
        let before = self.file.metadata().map_err(Error::io("read", &self.path))?.len();
        if self.length.is_some_and(|length| length != before) {
            tracing::warn!(
                "{} was changed during training: it has {before} bytes instead of {}. Results may be missing in it, and \
                 training goes on",
                self.path.display(),
                self.length.unwrap_or_default()
            );
            self.length = None;
        }
        self.file.write_all(&line).map_err(|error| {
            // If the disk is full, the incomplete line is removed, so that it does not spoil the next one.
            let _ = self.file.set_len(before);
            Error::io("write", &self.path)(error)
        })?;
        self.length = self.length.map(|length| length + line.len() as u64);
        Ok(())
    }

    /// Cuts off the results after `iteration`, which are at the end of the file. A damaged line before them stays.
    fn rewind(&mut self, iteration: u64) -> Result<()> {
        let later = || {
            let mut lines = LinesFromEnd::open(&self.path)?;
            let mut later = None;
            while let Some((start, line)) = lines.next()? {
                match iteration_of(&line) {
                    Some(found) if found > iteration => later = Some(start),
                    Some(_) => break,
                    None => {}
                }
            }
            Ok(later)
        };
        match later().map_err(unreadable(&self.path))? {
            Some(start) => {
                let cut = self.file.set_len(start).and_then(|()| self.file.sync_all());
                cut.map_err(Error::io("write", &self.path))?;
                self.length = self.length.map(|_| start);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn keep_in(&mut self, run_dir: &Path) -> Result<Option<String>> {
        let path = run_dir.join(FILE);
        let Some(file) = files::write_again(&self.file, &path)? else { return Ok(None) };
        self.file = file;
        self.path = path;
        Ok(Some(FILE.into()))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("write", &self.path))
    }
}

/// Makes an [`Error::Io`] for reading `path`, with advice if a line is too long.
fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        let error = match error.kind() {
            io::ErrorKind::InvalidData => {
                let way_out = "cut the file off before that line, or put a copy of it in its place";
                io::Error::new(io::ErrorKind::InvalidData, format!("{error}; {way_out}"))
            }
            _ => error,
        };
        Error::io("read", path)(error)
    }
}

/// Returns the `training_iteration` of a result; `None` if the line is not a result.
fn iteration_of(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Row {
        training_iteration: Value,
    }
    serde_json::from_slice::<Row>(line).ok()?.training_iteration.as_u64()
}

/// Reads all results of a run. An incomplete last line, left by a killed process, is ignored.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be read, or if a line before the last one is not a JSON object; the message
/// contains the number of that line.
pub fn read_results(run_dir: &Path) -> Result<Vec<Metrics>> {
    let mut results = Vec::new();
    visit_results(&run_dir.join(FILE), |result| {
        results.push(result?);
        Ok(())
    })?;
    Ok(results)
}

/// Returns an error message for each damaged line of `result.json` in `run_dir`: a line that is not a JSON object. The
/// message has the line's number. An incomplete last line, which a killed process leaves, does not count as damaged. The list
/// is empty if the file does not exist yet.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be read.
pub fn damaged_results(run_dir: &Path) -> Result<Vec<String>> {
    let path = run_dir.join(FILE);
    let mut damaged = Vec::new();
    if path.exists() {
        visit_results(&path, |result| {
            damaged.extend(result.err().map(|error| error.to_string()));
            Ok(())
        })?;
    }
    Ok(damaged)
}

/// Returns the last readable result of a run, searched from the end of the file; `None` if there is none, or no file.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be read.
pub(crate) fn last_result(run_dir: &Path) -> Result<Option<Metrics>> {
    let path = run_dir.join(FILE);
    let mut lines = match LinesFromEnd::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        lines => lines.map_err(Error::io("read", &path))?,
    };
    while let Some((_, line)) = lines.next().map_err(unreadable(&path))? {
        if let Some(result) = line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice(line).ok()) {
            return Ok(Some(result));
        }
    }
    Ok(None)
}

/// Calls `visit` for each result in the file at `path`. A damaged line is passed to `visit` as an error, and an error
/// that `visit` returns ends the reading.
pub(crate) fn visit_results(path: &Path, mut visit: impl FnMut(Result<Metrics>) -> Result<()>) -> Result<()> {
    let mut reader = BufReader::new(files::open(path).map_err(Error::io("read", path))?);
    let mut line = Vec::new();
    for number in 1.. {
        pavlov_processes::read_line(&mut reader, &mut line).map_err(unreadable(path))?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let result = serde_json::from_slice(&line).map_err(|error| {
            let place = format!("line {number} is not a JSON object: {error}");
            Error::io("read", path)(io::Error::new(io::ErrorKind::InvalidData, place))
        });
        visit(result)?;
    }
    Ok(())
}
