//! `result.json`: every result, one JSON object per line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Logger;
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
    /// [`Error::Io`].
    pub fn open(run_dir: &Path) -> Result<Self> {
        let path = run_dir.join(FILE);
        let file = open_append(&path)?;
        let length = file.metadata().map_err(Error::io("read", &path))?.len();
        let whole = length_in_whole_lines(&path, length).map_err(Error::io("read", &path))?;
        if whole < length {
            tracing::warn!("cut a broken line of {} bytes off {}", length - whole, path.display());
            file.set_len(whole).map_err(Error::io("write", &path))?;
        }
        Ok(JsonLogger { path, file })
    }
}

impl Logger for JsonLogger {
    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        let mut line = serde_json::to_vec(result).map_err(Error::other)?;
        line.push(b'\n');
        let before = self.file.metadata().map_err(Error::io("read", &self.path))?.len();
        self.file.write_all(&line).map_err(|error| {
            // A disk that fills up in mid-line must not spoil the line that comes after.
            let _ = self.file.set_len(before);
            Error::io("write", &self.path)(error)
        })
    }

    fn rewind(&mut self, iteration: u64) -> Result<()> {
        let is_later = |result: &Metrics| {
            result.get("training_iteration").and_then(|n| n.as_u64()).is_some_and(|n| n > iteration)
        };
        let mut any = false;
        visit_results(&self.path, |result| {
            any |= is_later(&result);
            Ok(())
        })?;
        if !any {
            return Ok(());
        }
        files::replace_durably(&self.path, |out| {
            visit_results(&self.path, |result| {
                if is_later(&result) {
                    return Ok(());
                }
                serde_json::to_writer(&mut *out, &result)
                    .map_err(io::Error::from)
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(Error::io("write", &self.path))
            })
        })?;
        self.file = open_append(&self.path)?;
        Ok(())
    }
}

/// All results of a run. A broken last line (the process was killed in mid-line) is left out.
///
/// # Errors
/// [`Error::Io`]; a broken line before the last one, named by its number.
pub fn read_results(run_dir: &Path) -> Result<Vec<Metrics>> {
    let mut results = Vec::new();
    visit_results(&run_dir.join(FILE), |result| {
        results.push(result);
        Ok(())
    })?;
    Ok(results)
}

/// As [`read_results`], one at a time.
pub(super) fn visit_results(path: &Path, mut visit: impl FnMut(Metrics) -> Result<()>) -> Result<()> {
    let mut reader = BufReader::new(File::open(path).map_err(Error::io("read", path))?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(Error::io("read", path))?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let result = serde_json::from_slice(&line).map_err(|error| {
            let place = format!("line {number} is not a JSON object: {error}");
            Error::io("read", path)(io::Error::new(io::ErrorKind::InvalidData, place))
        })?;
        visit(result)?;
    }
    Ok(())
}

/// Where the last line feed ends, found from the end.
fn length_in_whole_lines(path: &Path, length: u64) -> io::Result<u64> {
    const BLOCK: u64 = 1 << 16;
    let mut file = File::open(path)?;
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; (end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn open_append(path: &Path) -> Result<File> {
    files::append(path)
}
