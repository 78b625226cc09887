//! [`BatchLog`]: writes the first training batches of a run into its folder, with all that a learning step depends on.

use crate::base::parquet::parquet;
use crate::base::part_of;
use crate::policy::{Learned, Policy};
use pavlov_learn::base::{Array, Error, Result, State};
use pavlov_learn::experience::{Column, SampleBatch};
use pavlov_tune::write_file;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of logged batches, within the folder of the run.
const FOLDER: &str = "batches";

/// Writes the first learning steps of a run (`log_batches`), each as files of one number.
///
/// `update-000001.parquet` has the rows as they were learned from; `-sequences.parquet` the recurrent states and lengths
/// of sequences; `-behind.parquet` the observations after trajectories that were cut; `-before` and `-after` the
/// policy's state (weights, target copy, optimizer) around the step; `update-000001.json` the rest. Names end with the
/// policy's id unless it is the default policy.
#[derive(Debug)]
pub(crate) struct BatchLog {
    dir: PathBuf,
    algorithm: &'static str,
    /// Number of the next learning step to log.
    next: u64,
    /// Number of the last learning step to log.
    last: u64,
}

impl BatchLog {
    /// Makes the log of the first `updates` learning steps of the run in the folder `logdir`. A run that is resumed
    /// continues after the steps that the folder has; `None` if it has all of them, or `updates` is 0.
    pub(crate) fn new(logdir: &Path, algorithm: &'static str, updates: u64) -> Option<Self> {
        let dir = logdir.join(FOLDER);
        let next = if updates == 0 { 1 } else { logged(&dir).unwrap_or(0) + 1 };
        (next <= updates).then_some(Self { dir, algorithm, next, last: updates })
    }

    /// Writes the batch and the state of the policy `id` before the learning step.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the run has no folder, and [`Error::State`] if a file cannot be written.
    pub(crate) fn before(&self, id: &str, policy: &dyn Policy, batch: &SampleBatch) -> Result<()> {
        if self.dir == Path::new(FOLDER) {
            let rule = "the batches are written into the folder of the run, and this run has none: give it one, or \
                        set 0";
            return Err(Error::config("log_batches", self.last, rule));
        }
        fs::create_dir_all(&self.dir).map_err(|error| failed(&self.dir, &error))?;
        let stem = part_of(&stem(self.next), id);
        let per_sequence = |column: Column| column == Column::STATE_IN;
        let rows = batch.columns().filter(|(column, _)| !per_sequence(*column));
        self.table(&stem, rows.map(|(column, array)| (column.name(), array)))?;
        if let Some(lengths) = batch.sequences() {
            let lengths = Array::from_slice(&lengths.iter().map(|&n| n as i64).collect::<Vec<_>>());
            let states = batch.columns().filter(|(column, _)| per_sequence(*column));
            let columns = states.map(|(column, array)| (column.name(), array));
            self.table(&format!("{stem}-sequences"), [("length", &lengths)].into_iter().chain(columns))?;
        }
        if let Ok(behind) = batch.behind() {
            let columns = behind.columns().map(|(column, array)| (column.name(), array));
            self.table(&format!("{stem}-behind"), columns)?;
        }
        policy.get_state()?.write(&self.dir, &format!("{stem}-before"))
    }

    /// Writes the state of the policy `id` after the learning step, and its report. Returns whether this was the last
    /// learning step to log.
    ///
    /// # Errors
    /// Returns [`Error::State`] if a file cannot be written.
    pub(crate) fn after(
        &mut self,
        id: &str,
        policy: &dyn Policy,
        batch: &SampleBatch,
        learned: &Learned,
    ) -> Result<bool> {
        let number = self.next;
        let stem = part_of(&stem(number), id);
        let mut state = policy.get_state()?;
        let timestep: u64 = if state.has("timestep") { state.get("timestep")? } else { 0 };
        if let Some(errors) = &learned.td_errors {
            state.set_array("td_errors", errors.lend());
        }
        state.write(&self.dir, &format!("{stem}-after"))?;
        let names = learned.stats.names().iter();
        let statistics: serde_json::Map<String, Value> = names
            .zip(learned.stats.values())
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let mut report = State::default();
        report.set("algorithm", &self.algorithm)?;
        report.set("policy", &id)?;
        report.set("update", &number)?;
        report.set("timestep", &timestep)?;
        report.set("rows", &batch.rows())?;
        report.set("mean_rows", &batch.mean_rows())?;
        report.set("values", &policy.current_values(timestep))?;
        report.set("statistics", &statistics)?;
        report.set("stop", &learned.stop)?;
        report.set("trajectories", &batch.trajectories().ok())?;
        report.write(&self.dir, &stem)?;
        self.next += 1;
        let count = self.dir.join("count.json");
        write_file(&count, format!("{number}\n").as_bytes()).map_err(|error| failed(&count, &error))?;
        Ok(number >= self.last)
    }

    fn table<'a>(&self, stem: &str, columns: impl IntoIterator<Item = (&'a str, &'a Array)>) -> Result<()> {
        let path = self.dir.join(format!("{stem}.parquet"));
        write_file(&path, &parquet(columns)?).map_err(|error| failed(&path, &error))
    }
}

/// Name of the files of a learning step, without the policy and the ending.
fn stem(update: u64) -> String {
    format!("update-{update:06}")
}

/// Number of learning steps that the folder `dir` has, if it was noted.
fn logged(dir: &Path) -> Option<u64> {
    fs::read_to_string(dir.join("count.json")).ok()?.trim().parse().ok()
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::state(
        path.display().to_string(),
        format!("the batches of `log_batches` cannot be written: {error}"),
    )
}
