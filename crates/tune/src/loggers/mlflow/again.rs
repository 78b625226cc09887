//! Writes the rows of a run into MLflow's file again, after the file was deleted or replaced while the run logs into it.
//!
//! The deleted file lives on as long as it is open, so the rows of the run are copied from it. Other runs that still log copy
//! theirs in the same way; those of runs that have ended are lost.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params, params_from_iter};

use super::errors::failed;
use super::schema::provide_experiment;
use crate::base::Result;

/// Device and number of the file at `path`. A link is not followed.
pub(super) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// Held while a file is opened or written again, so that no run of this process opens a file whose old log another one removes.
static OPENING: Mutex<()> = Mutex::new(());

/// Waits until no other run of this process opens a file, and keeps others waiting until the value is dropped.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the write-ahead log of a file that was deleted, since SQLite would add its rows to a new file of that name.
pub(super) fn remove_leftovers(path: &Path) {
    for ending in ["-wal", "-shm"] {
        let mut name = OsString::from(path);
        name.push(ending);
        _ = fs::remove_file(name);
    }
}

/// Copies the run with its experiment, settings, tags and metrics.
pub(super) fn copy(from: &Connection, to: &Transaction<'_>, path: &Path, id: &str) -> Result<()> {
    let find = "SELECT experiments.name FROM experiments JOIN runs USING (experiment_id) WHERE run_uuid = ?1";
    let name: String = from.query_row(find, params![id], |row| row.get(0)).map_err(failed(path))?;
    let (experiment, _) = provide_experiment(to, path, &name)?;
    for table in ["runs", "params", "tags", "metrics", "latest_metrics"] {
        copy_table(from, to, table, (id, experiment)).map_err(failed(path))?;
    }
    Ok(())
}

/// Copies the rows of the run `id`, which belongs to `experiment` in the new file.
fn copy_table(
    from: &Connection,
    to: &Transaction<'_>,
    table: &str,
    (id, experiment): (&str, i64),
) -> rusqlite::Result<()> {
    let mut rows = from.prepare(&format!("SELECT * FROM {table} WHERE run_uuid = ?1"))?;
    let names: Vec<String> = rows.column_names().map(str::to_owned).collect();
    let columns = names.join(", ");
    let places = vec!["?"; names.len()].join(", ");
    let mut insert = to.prepare(&format!("INSERT OR REPLACE INTO {table} ({columns}) VALUES ({places})"))?;
    let mut found = rows.query(params![id])?;
    while let Some(row) = found.next()? {
        let value = |(i, name): (usize, &String)| match name.as_str() {
            "experiment_id" => Ok(Value::Integer(experiment)),
            _ => row.get(i),
        };
        let values: Vec<Value> = names.iter().enumerate().map(value).collect::<rusqlite::Result<_>>()?;
        insert.execute(params_from_iter(values))?;
    }
    Ok(())
}
