//! The tables of MLflow: creates them in an empty file, checks those of an existing file, and provides a run's experiment.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::errors::{failed, refusal};
use super::now;
use crate::base::Result;

/// The tables of an empty file, as MLflow 3.13.0 creates them: `tests/record_mlflow.py` wrote this file. Each later version of MLflow
/// adds its tables when it opens a file that lacks some, so that the file of 3.13 suits most versions.
const SCHEMA: &str = include_str!("schema.sql");
/// Tables to which a run writes.
const TABLES: [&str; 6] = ["experiments", "runs", "params", "tags", "metrics", "latest_metrics"];

/// Creates the tables of MLflow in an empty file, and checks that a run can be written to those of another.
pub(super) fn provide(all: &Transaction<'_>, path: &Path) -> Result<()> {
    let count: i64 =
        all.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(failed(path))?;
    if count == 0 {
        all.execute_batch(SCHEMA).map_err(failed(path))?;
        let default = "INSERT INTO experiments (experiment_id, name, workspace, artifact_location, lifecycle_stage, \
                       creation_time, last_update_time) VALUES (0, 'Default', 'default', ?1, 'active', ?2, ?2)";
        return all
            .execute(default, params![artifacts(path, 0), now() as i64])
            .map(drop)
            .map_err(failed(path));
    }
    let Some(found) = version(all) else {
        return Err(refusal(
            path,
            "it is an SQLite file of another program; name another file in MLFLOW_TRACKING_URI".into(),
        ));
    };
    let ours = Connection::open_in_memory().map_err(failed(path))?;
    ours.execute_batch(SCHEMA).map_err(failed(path))?;
    for table in TABLES {
        let [found_columns, own_columns] = [&**all, &ours].map(|tables| columns(tables, table));
        if !suits(&found_columns.map_err(failed(path))?, &own_columns.map_err(failed(path))?) {
            let known = version(&ours).unwrap_or_default();
            return Err(refusal(
                path,
                format!(
                    "its tables have version {found} of MLflow's schema, in which `{table}` differs from version {known} \
                     (MLflow 3.13.0) that pavlov writes; run `mlflow db upgrade sqlite:///{}` with MLflow 3.13 or later, \
                     name another file in MLFLOW_TRACKING_URI, or use `--logger mlflow-folder`",
                    path.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Returns the place of the files of an experiment.
pub(super) fn artifacts(path: &Path, experiment_id: i64) -> String {
    path.with_file_name("mlartifacts").join(experiment_id.to_string()).display().to_string()
}

/// Returns the id of the experiment and the place of its files. Creates it unless it exists.
pub(super) fn provide_experiment(all: &Transaction<'_>, path: &Path, name: &str) -> Result<(i64, String)> {
    let find = "SELECT experiment_id, artifact_location, lifecycle_stage FROM experiments \
                WHERE name = ?1 AND workspace = 'default'";
    let columns = |row: &rusqlite::Row<'_>| {
        Ok((row.get(0)?, row.get::<_, Option<String>>(1)?.unwrap_or_default(), row.get::<_, String>(2)?))
    };
    let found = all.query_row(find, params![name], columns).optional().map_err(failed(path))?;
    match found {
        Some((id, _, stage)) if stage != "active" => Err(refusal(
            path,
            format!(
                "the experiment {name:?} was deleted in MLflow; bring it back with `mlflow experiments restore \
                 --experiment-id {id}`, or remove it for good with `mlflow gc`"
            ),
        )),
        Some((id, place, _)) => Ok((id, place)),
        None => {
            let make = "INSERT INTO experiments (name, workspace, lifecycle_stage, creation_time, last_update_time) \
                        VALUES (?1, 'default', 'active', ?2, ?2)";
            all.execute(make, params![name, now() as i64]).map_err(failed(path))?;
            let id = all.last_insert_rowid();
            let place = artifacts(path, id);
            let keep = "UPDATE experiments SET artifact_location = ?2 WHERE experiment_id = ?1";
            all.execute(keep, params![id, place]).map_err(failed(path))?;
            Ok((id, place))
        }
    }
}

/// Returns the version of MLflow's schema in a file.
fn version(tables: &Connection) -> Option<String> {
    tables.query_row("SELECT version_num FROM alembic_version", [], |row| row.get(0)).optional().ok()?
}

/// A column of a table.
#[derive(Debug, PartialEq)]
struct Column {
    name: String,
    is_key: bool,
    needs_value: bool,
}

/// Returns the columns of a table.
fn columns(tables: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let all = "SELECT name, pk > 0, \"notnull\" AND dflt_value IS NULL FROM pragma_table_info(?1)";
    let column = |row: &rusqlite::Row<'_>| {
        Ok(Column { name: row.get(0)?, is_key: row.get(1)?, needs_value: row.get(2)? })
    };
    tables.prepare(all)?.query_map(params![table], column)?.collect()
}

/// Returns whether rows with our columns can be written to a table with theirs.
fn suits(theirs: &[Column], ours: &[Column]) -> bool {
    let is_ours =
        |column: &Column| ours.iter().any(|own| own.name == column.name && own.is_key == column.is_key);
    let is_theirs = |own: &Column| theirs.iter().any(|column| column.name == own.name);
    ours.iter().all(is_theirs)
        && theirs.iter().all(|column| is_ours(column) || !column.is_key && !column.needs_value)
}
