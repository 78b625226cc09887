//! Writes `progress.csv`, a table of the results for spreadsheets and plots, made from `result.json`.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::from_end::LinesFromEnd;
use super::json::{self, visit_results};
use super::{Logger, flatten};
use crate::{Error, Metrics, Result, files};

/// Appends each result to `progress.csv`. The file is rebuilt from `result.json` if a new column appears, or if the two
/// files do not end with the same result.
///
/// Must come after a [`JsonLogger`](super::JsonLogger) of the same directory. The columns are the flattened keys in
/// order of first appearance, without the settings (`config`) and lists. A key that a result lacks is an empty cell.
#[derive(Debug)]
pub struct CsvLogger {
    run_dir: PathBuf,
    path: PathBuf,
    columns: Vec<String>,
    file: Option<File>,
}

impl CsvLogger {
    /// Continues an existing `progress.csv`, or makes it from the results so far; without results it is created with
    /// the first one.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if `result.json` or `progress.csv` cannot be read or written.
    pub fn open(run_dir: &Path) -> Result<Self> {
        let mut logger = CsvLogger {
            run_dir: run_dir.to_path_buf(),
            path: run_dir.join("progress.csv"),
            columns: Vec::new(),
            file: None,
        };
        if run_dir.join(json::FILE).exists() && !logger.go_on()? {
            logger.rebuild()?;
        }
        Ok(logger)
    }

    /// Positions the file after the row of the last result, which is searched from the end; later rows are cut off.
    /// Returns false, without changes on disk, if there is no such row.
    fn go_on(&mut self) -> Result<bool> {
        self.file = None;
        let Some(last) = json::last_result(&self.run_dir)? else { return Ok(false) };
        let cells = cells(&last);
        self.columns = header(&self.path).unwrap_or_default();
        if self.columns.is_empty() || !cells.iter().all(|(key, _)| self.columns.contains(key)) {
            return Ok(false);
        }
        let row = self.row(&cells).map_err(Error::io("write", &self.path))?;
        let end = || -> std::io::Result<_> {
            let mut lines = LinesFromEnd::open(&self.path)?;
            while let Some((start, line)) = lines.next()? {
                if line == row {
                    return Ok(Some(start + line.len() as u64));
                }
            }
            Ok(None)
        };
        let end = match end() {
            // A line that is too long was not written by this logger.
            Err(error) if error.kind() == ErrorKind::InvalidData => None,
            end => end.map_err(Error::io("read", &self.path))?,
        };
        let Some(end) = end else { return Ok(false) };
        let file = files::append(&self.path)?;
        file.set_len(end).map_err(Error::io("write", &self.path))?;
        self.file = Some(file);
        Ok(true)
    }

    /// Rewrites `progress.csv` from all results in `result.json`.
    fn rebuild(&mut self) -> Result<()> {
        self.file = None;
        self.columns.clear();
        let results = self.run_dir.join(json::FILE);
        visit_results(&results, |result| {
            match result {
                Ok(result) => {
                    for (key, _) in cells(&result) {
                        if !self.columns.contains(&key) {
                            self.columns.push(key);
                        }
                    }
                }
                Err(error) => tracing::warn!("left out of {}: {error}", self.path.display()),
            }
            Ok(())
        })?;
        if self.columns.is_empty() && !self.path.exists() {
            return Ok(());
        }
        files::replace(&self.path, |out| {
            let failed = || Error::io("write", &self.path);
            if !self.columns.is_empty() {
                let header = line(self.columns.iter()).map_err(failed())?;
                out.write_all(&header).map_err(failed())?;
            }
            visit_results(&results, |result| {
                let Ok(result) = result else { return Ok(()) };
                let row = self.row(&cells(&result)).map_err(failed())?;
                out.write_all(&row).map_err(failed())
            })
        })?;
        self.file = Some(files::append(&self.path)?);
        Ok(())
    }

    /// Formats one result as a line with a cell for every column.
    fn row(&self, cells: &[(String, String)]) -> std::io::Result<Vec<u8>> {
        let cell =
            |column: &String| cells.iter().find(|(key, _)| key == column).map(|(_, text)| text.as_str());
        line(self.columns.iter().map(|column| cell(column).unwrap_or_default()))
    }
}

impl Logger for CsvLogger {
    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        let cells = cells(result);
        let known = cells.iter().all(|(key, _)| self.columns.contains(key));
        match &mut self.file {
            Some(_) if known => {
                let row = self.row(&cells).map_err(Error::io("write", &self.path))?;
                let file = self.file.as_mut().expect("matched above");
                file.write_all(&row).map_err(Error::io("write", &self.path))
            }
            _ => self.rebuild(),
        }
    }

    fn rewind(&mut self, _iteration: u64) -> Result<()> {
        if self.go_on()? { Ok(()) } else { self.rebuild() }
    }

    fn sync(&mut self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data).map_err(Error::io("write", &self.path))
    }
}

/// Reads the column names of a table; `None` if its first line cannot be read.
fn header(path: &Path) -> Option<Vec<String>> {
    let file = files::open(path).ok()?.take(pavlov_processes::LONGEST_LINE);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(file);
    let first = reader.records().next()?.ok()?;
    Some(first.iter().map(String::from).collect())
}

/// Flattens a result into column names and cell texts, without settings and lists.
fn cells(result: &Metrics) -> Vec<(String, String)> {
    flatten(result)
        .into_iter()
        .filter(|(key, _)| key != "config" && !key.starts_with("config/"))
        .filter_map(|(key, value)| {
            let text = match value {
                Value::Array(_) | Value::Object(_) => return None,
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
            };
            Some((key, text))
        })
        .collect()
}

/// Formats cells as one line of CSV.
fn line(cells: impl Iterator<Item = impl AsRef<[u8]>>) -> std::io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().buffer_capacity(1 << 10).from_writer(Vec::new());
    writer.write_record(cells)?;
    writer.into_inner().map_err(|error| error.into_error())
}
