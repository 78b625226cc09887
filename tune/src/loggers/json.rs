//! `result.json`: every result, one JSON object per line.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::Logger;
use super::from_end::LinesFromEnd;
use crate::{Error, Metrics, Result, files};

pub(crate) const FILE: &str = "result.json";

/// Appends each result to `result.json`.
#[derive(Debug)]
pub struct JsonLogger {
    path: PathBuf,
    file: File,
}

impl JsonLogger {
    /// Continues the file in `run_dir`, or begins it. A last line that a killed process left broken is cut off.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file cannot be opened, read or written, or if it is a symbolic link.
    pub fn open(run_dir: &Path) -> Result<Self> {
        let path = run_dir.join(FILE);
        let file = files::append(&path)?;
        let last = LinesFromEnd::open(&path).and_then(|mut lines| lines.next());
        if let Some((start, line)) = last.map_err(unreadable(&path))?
            && !line.ends_with(b"\n")
        {
            tracing::warn!("cut a broken line of {} bytes off {}", line.len(), path.display());
            file.set_len(start).map_err(Error::io("write", &path))?;
        }
        Ok(JsonLogger { path, file })
    }
}

impl Logger for JsonLogger {
    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        let mut line = serde_json::to_vec(result).map_err(Error::other)?;
        line.push(b'\n');
        files::refuse_too_large(&line).map_err(Error::io("write", &self.path))?;
        let before = self.file.metadata().map_err(Error::io("read", &self.path))?.len();
        self.file.write_all(&line).map_err(|error| {
            // A disk that fills up in mid-line must not spoil the line that comes after.
            let _ = self.file.set_len(before);
            Error::io("write", &self.path)(error)
        })
    }

    /// Cuts off the results after `iteration`, which stand at the end. A damaged line before them stays.
    fn rewind(&mut self, iteration: u64) -> Result<()> {
        let later = || {
            let (mut lines, mut later) = (LinesFromEnd::open(&self.path)?, None);
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
            Some(start) => self
                .file
                .set_len(start)
                .and_then(|()| self.file.sync_all())
                .map_err(Error::io("write", &self.path)),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("write", &self.path))
    }
}

/// [`Error::Io`], with the way out where a line is too long.
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

fn iteration_of(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Row {
        training_iteration: Value,
    }
    serde_json::from_slice::<Row>(line).ok()?.training_iteration.as_u64()
}

/// All results of a run. A broken last line (the process was killed in mid-line) is left out.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be read, or if a line before the last one is broken; it names that line by
/// its number.
pub fn read_results(run_dir: &Path) -> Result<Vec<Metrics>> {
    let mut results = Vec::new();
    visit_results(&run_dir.join(FILE), |result| {
        results.push(result?);
        Ok(())
    })?;
    Ok(results)
}

/// The last result of a run that can be read, found from the end of the file; `None`: there is none, or no file.
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

/// As [`read_results`], one at a time; a broken line is an error that `visit` may take or leave.
pub(crate) fn visit_results(path: &Path, mut visit: impl FnMut(Result<Metrics>) -> Result<()>) -> Result<()> {
    let mut reader = BufReader::new(files::open(path).map_err(Error::io("read", path))?);
    let mut line = Vec::new();
    for number in 1.. {
        files::read_line(&mut reader, &mut line).map_err(unreadable(path))?;
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
