//! Writes `progress.csv`, a table of the results for spreadsheets and plots, made from `result.json`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::from_end::LinesFromEnd;
use super::json::{self, visit_results};
use super::{Logger, flatten};
use crate::base::{Error, Metrics, Result, files};

/// Name of the table in a run directory.
const FILE: &str = "progress.csv";

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
    /// Whether there is no result yet.
    is_new: bool,
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
            path: run_dir.join(FILE),
            columns: Vec::new(),
            file: None,
            is_new: false,
        };
        match fs::metadata(run_dir.join(json::FILE)) {
            Ok(results) if results.len() == 0 && !logger.path.exists() => logger.is_new = true,
            Ok(_) if !logger.go_on()? => logger.rebuild()?,
            _ => {}
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
        let visited = visit_results(&results, |result| {
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
        });
        match visited {
            Err(error) if error.is_of_missing_file() => return Ok(()),
            visited => visited?,
        }
        if self.columns.is_empty() && !self.path.exists() {
            return Ok(());
        }
        let written = files::replace(&self.path, |out| {
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
        });
        match written.and_then(|()| files::append(&self.path)) {
            // Who deletes the run's files meanwhile may have taken the new one. The next result makes another one.
            Ok(file) if file.metadata().is_ok_and(|file| file.len() > 0) => self.file = Some(file),
            Err(error) if !error.is_of_missing_file() => return Err(error),
            _ => {}
        }
        Ok(())
    }

    /// Begins `progress.csv` with the first result of the run.
    fn begin(&mut self, cells: Vec<(String, String)>) -> Result<()> {
        let failed = || Error::io("write", &self.path);
        let (columns, texts): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        let mut lines = line(columns.iter()).map_err(failed())?;
        lines.extend(line(texts.iter()).map_err(failed())?);
        // If the process is killed in between, the next one rebuilds the file.
        let mut file = files::append(&self.path)?;
        file.write_all(&lines).map_err(failed())?;
        self.file = Some(file);
        self.columns = columns;
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
        if std::mem::take(&mut self.is_new) && !cells.is_empty() {
            return self.begin(cells);
        }
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
        self.is_new = false;
        if self.go_on()? { Ok(()) } else { self.rebuild() }
    }

    fn keep_in(&mut self, run_dir: &Path) -> Result<Option<String>> {
        let path = run_dir.join(FILE);
        let is_there = match &self.file {
            Some(file) => files::is_at(file, &path)?,
            None => self.columns.is_empty(),
        };
        if is_there {
            return Ok(None);
        }
        self.run_dir = run_dir.into();
        self.path = path;
        self.is_new = false;
        self.rebuild()?;
        Ok(Some(FILE.into()))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data).map_err(Error::io("write", &self.path))
    }
}

/// Largest number of cells that [`table_differences`] names.
const MAX_CELLS: usize = 5;

/// Compares `progress.csv` with `result.json`, and describes the first cells that differ. A run without the table, which may
/// be deleted, has no differences.
///
/// # Errors
/// Returns [`Error::Io`] if one of the files cannot be read or the table is none.
pub fn table_differences(run_dir: &Path) -> Result<Vec<String>> {
    let path = run_dir.join(FILE);
    let mut found = Vec::new();
    if !path.exists() {
        return Ok(found);
    }
    let failed = |error: csv::Error| Error::io("read", &path)(error.into());
    let file = files::open(&path).map_err(Error::io("read", &path))?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let columns: Vec<String> = reader.headers().map_err(failed)?.iter().map(String::from).collect();
    let mut records = reader.records();
    let mut row = 0;
    visit_results(&run_dir.join(json::FILE), |result| {
        // A damaged line has no row.
        let Ok(result) = result else { return Ok(()) };
        row += 1;
        let Some(record) = records.next() else {
            found.push(format!("{FILE} has no row {row}, which {} has", json::FILE));
            return Ok(());
        };
        let record = record.map_err(failed)?;
        let cells = cells(&result);
        let there = |key: &str| cells.iter().find(|(known, _)| known == key).map_or("", |(_, text)| text);
        let here = |key: &str| {
            let at = columns.iter().position(|column| column == key);
            at.and_then(|at| record.get(at)).unwrap_or_default()
        };
        let keys =
            columns.iter().chain(cells.iter().map(|(key, _)| key).filter(|key| !columns.contains(key)));
        for key in keys.filter(|key| here(key) != there(key)) {
            found.push(format!(
                "{FILE}, row {row}: {key} is {:?}, but {} has {:?}",
                here(key),
                json::FILE,
                there(key)
            ));
        }
        Ok(())
    })?;
    if records.next().is_some() {
        found.push(format!("{FILE} has more rows than {}", json::FILE));
    }
    found.truncate(MAX_CELLS);
    Ok(found)
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
