//! Writes results into the SQLite file of MLflow, which MLflow 3.13 and later read by default.
//!
//! ```text
//! experiments     id, name
//! runs            id, experiment, name, status, times in milliseconds since 1970
//! params, tags    settings and tags of a run as text
//! metrics         a row for each number of each result: value, step, time
//! latest_metrics  the last row of each metric
//! ```
//!
//! MLflow keeps NaN as 0 with `is_nan`, and an infinity as the largest number of its sign.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use super::again;
use super::errors::{PATIENCE, failed};
use super::{
    ITERATION, experiment_name, iteration_and_step, known_id, now, parts, run_id, run_name, schema, tags,
    text_of_setting,
};
use crate::base::{Config, Error, Metrics, Result, flatten};
use crate::loggers::Logger;
use crate::loggers::tags::tag;
use crate::trainable::TrialContext;

/// Name of the file in the run directory that holds the run's id, under which it is continued.
const ID: &str = "mlflow-db.json";
/// File systems of several machines, by the number that `statfs` returns.
const SHARED: [u64; 10] = [
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB 2
    0x0BD0_0BD0, // Lustre
    0x00C3_6400, // Ceph
    0x5346_414F, // AFS
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
    0x6573_5546, // FUSE, such as sshfs
];

/// Writes results into the SQLite file of MLflow, under the names of the TensorBoard tags. The step is `timesteps_total`, or the
/// iteration if timesteps are not counted. A metric that becomes `null` is NaN. A resumed run keeps its id.
///
/// Several runs and processes may write to one file while MLflow reads it. MLflow 3.13 and later read the file;
/// [`MlflowFolderLogger`](super::MlflowFolderLogger) writes for earlier ones.
///
/// ```
/// use pavlov_tune::loggers::MlflowLogger;
/// use pavlov_tune::{LoggerChoice, RunOptions};
///
/// let loggers = LoggerChoice::DefaultAnd(vec![Box::new(MlflowLogger::new("mlflow.db", "pole"))]);
/// let options = RunOptions { loggers, ..RunOptions::default() };
/// ```
#[derive(Debug)]
pub struct MlflowLogger {
    /// `None` stands for `mlflow.db` beside the run directory.
    database: Option<PathBuf>,
    /// `None` stands for the name of the sweep's directory.
    experiment: Option<String>,
    run: Option<MlflowRun>,
}

/// An open run.
#[derive(Debug)]
struct MlflowRun {
    connection: Connection,
    database: PathBuf,
    /// The file that was opened: its device and its number there.
    file: (u64, u64),
    id: String,
    /// Metrics that have had a number.
    known: BTreeSet<String>,
    /// Whether results of an earlier process may have to be removed.
    is_fresh: bool,
    has_failed: bool,
}

impl MlflowLogger {
    /// Creates a logger for the SQLite file `database`. The run becomes part of the experiment of this name.
    pub fn new(database: impl Into<PathBuf>, experiment: impl Into<String>) -> Self {
        MlflowLogger { database: Some(database.into()), experiment: Some(experiment.into()), run: None }
    }

    /// Creates a logger for the SQLite file `mlflow.db` beside the run directory, which the runs beside it share.
    pub fn beside_run(experiment: impl Into<String>) -> Self {
        MlflowLogger { database: None, experiment: Some(experiment.into()), run: None }
    }

    /// Creates a logger for the trials of a sweep, which form an experiment that is named after the sweep's directory. The default
    /// of `database` is `mlflow.db` in that directory.
    pub fn of_sweep(database: Option<PathBuf>) -> Self {
        MlflowLogger { database, experiment: None, run: None }
    }

    /// Returns whether this form has logged the run in the directory `run_dir`.
    pub fn knows(run_dir: &Path) -> bool {
        known_id(&run_dir.join(ID)).is_some()
    }
}

impl Logger for MlflowLogger {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        let beside = || trial.logdir.parent().unwrap_or(&trial.logdir).join("mlflow.db");
        let database = place(&self.database.clone().unwrap_or_else(beside))?;
        let id = run_id(&trial.logdir.join(ID))?;
        let alone = again::alone();
        let mut connection = open(&database)?;
        let start = write(&mut connection, &database)?;
        schema::provide(&start, &database)?;
        begin(&start, &database, (&id, &experiment_name(self.experiment.as_ref(), trial)), config, trial)?;
        let known = known(&start, &id).map_err(failed(&database))?;
        start.commit().map_err(failed(&database))?;
        drop(alone);
        let file = again::identity(&database).map_err(Error::io("read", &database))?;
        self.run =
            Some(MlflowRun { connection, database, file, id, known, is_fresh: true, has_failed: false });
        Ok(())
    }

    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        run.has_failed = false;
        let (iteration, step) = iteration_and_step(result);
        let mut numbers = vec![(ITERATION.to_owned(), iteration as f64)];
        for (key, value) in flatten(result) {
            let Some(tag) = tag(&key) else { continue };
            let name = parts(&tag).join("/");
            match value.as_f64() {
                Some(number) => numbers.push((name, number)),
                None if value.is_null() && run.known.contains(&name) => numbers.push((name, f64::NAN)),
                None => {}
            }
        }
        let all = write(&mut run.connection, &run.database)?;
        if std::mem::take(&mut run.is_fresh) {
            cut(&all, &run.id, iteration.saturating_sub(1)).map_err(failed(&run.database))?;
        }
        add(&all, &run.id, &numbers, step).map_err(failed(&run.database))?;
        all.commit().map_err(failed(&run.database))?;
        run.known.extend(numbers.into_iter().map(|(name, _)| name));
        Ok(())
    }

    fn rewind(&mut self, iteration: u64) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let all = write(&mut run.connection, &run.database)?;
        cut(&all, &run.id, iteration).map_err(failed(&run.database))?;
        run.known = known(&all, &run.id).map_err(failed(&run.database))?;
        all.commit().map_err(failed(&run.database))
    }

    /// A file that was deleted or replaced gets the rows of this run again, from the file that is still open. Without its
    /// folder nothing is written.
    fn keep_in(&mut self, _: &Path) -> Result<Option<String>> {
        let Some(run) = &mut self.run else { return Ok(None) };
        let path = &run.database;
        let is_there = || match again::identity(path) {
            Ok(file) => Ok(Some(file == run.file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", path)(error)),
        };
        if is_there()? == Some(true) || !path.parent().is_some_and(Path::is_dir) {
            return Ok(None);
        }
        let _alone = again::alone();
        if is_there()?.is_none() {
            again::remove_leftovers(path);
        }
        let mut connection = open(path)?;
        let all = write(&mut connection, path)?;
        schema::provide(&all, path)?;
        again::copy(&run.connection, &all, path, &run.id)?;
        all.commit().map_err(failed(path))?;
        run.file = again::identity(path).map_err(Error::io("read", path))?;
        run.connection = connection;
        Ok(Some(path.display().to_string()))
    }

    fn sync(&mut self) -> Result<()> {
        let Some(run) = &self.run else { return Ok(()) };
        // Without a write-ahead log each commit is durable.
        let mut log = OsString::from(&run.database);
        log.push("-wal");
        match File::open(&log).and_then(|file| file.sync_data()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("write", Path::new(&log))(error))
            }
            _ => Ok(()),
        }
    }

    fn failed(&mut self) {
        if let Some(run) = &mut self.run {
            run.has_failed = true;
        }
    }

    fn close(&mut self) -> Result<()> {
        self.keep_in(Path::new(""))?;
        let Some(run) = self.run.take() else { return Ok(()) };
        let status = if run.has_failed { "FAILED" } else { "FINISHED" };
        let end = "UPDATE runs SET status = ?2, end_time = ?3 WHERE run_uuid = ?1";
        run.connection.execute(end, params![run.id, status, time()]).map_err(failed(&run.database))?;
        run.connection.close().map_err(|(_, error)| failed(&run.database)(error))
    }
}

/// Returns the absolute path of a file whose folder has no links, and creates the folder.
fn place(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(Error::io("find the absolute path of", path))?;
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::io("write", &path)(io::Error::from(ErrorKind::IsADirectory)));
    };
    fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    Ok(fs::canonicalize(dir).map_err(Error::io("find the absolute path of", dir))?.join(name))
}

/// Opens the file. A link is not followed, since the directory may come from somebody else.
fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags).map_err(failed(path))?;
    let prepare = || {
        connection.busy_timeout(PATIENCE)?;
        // The schema of a file that comes from somebody else calls no function with a side effect.
        connection.pragma_update(None, "trusted_schema", false)?;
        if path.parent().is_some_and(is_of_one_machine) {
            // With a write-ahead log, readers and writers do not wait for each other. A file that another program uses at this
            // moment stays without one.
            _ = connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()));
        }
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode == "wal" {
            // A killed process loses nothing; `sync` guards against power cuts.
            connection.pragma_update(None, "synchronous", "normal")?;
        }
        Ok(())
    };
    prepare().map_err(failed(path))?;
    Ok(connection)
}

/// Returns whether a folder is on a file system of this machine alone. The shared memory of a write-ahead log does not reach other
/// machines.
fn is_of_one_machine(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|system| !SHARED.contains(&(system.f_type as u64 & 0xFFFF_FFFF)))
}

/// Begins a transaction that writes, and waits until others have written.
fn write<'a>(connection: &'a mut Connection, path: &Path) -> Result<Transaction<'a>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed(path))
}

/// Creates or continues the run, with its settings and tags.
fn begin(
    all: &Transaction<'_>,
    path: &Path,
    (id, experiment): (&str, &str),
    config: &Config,
    trial: &TrialContext,
) -> Result<()> {
    let go_on = "UPDATE runs SET status = 'RUNNING', end_time = NULL WHERE run_uuid = ?1";
    let name = run_name(trial);
    if all.execute(go_on, params![id]).map_err(failed(path))? == 0 {
        let (experiment_id, artifacts) = schema::provide_experiment(all, path, experiment)?;
        let run = "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, \
                   start_time, source_version, lifecycle_stage, artifact_uri, experiment_id) \
                   VALUES (?1, ?2, 'UNKNOWN', '', '', 'unknown', 'RUNNING', ?3, '', 'active', ?4, ?5)";
        let artifacts = format!("{artifacts}/{id}/artifacts");
        all.execute(run, params![id, name, time(), artifacts, experiment_id]).map_err(failed(path))?;
    }
    let write = || {
        // A run may have been renamed in MLflow.
        let mut tag = all.prepare("INSERT OR IGNORE INTO tags (key, value, run_uuid) VALUES (?1, ?2, ?3)")?;
        for (key, value) in tags(&name, &trial.logdir.to_string_lossy()) {
            tag.execute(params![key, value, id])?;
        }
        let mut param =
            all.prepare("INSERT OR REPLACE INTO params (key, value, run_uuid) VALUES (?1, ?2, ?3)")?;
        for (key, value) in flatten(config) {
            param.execute(params![parts(&key).join("."), text_of_setting(value), id])?;
        }
        Ok(())
    };
    write().map_err(failed(path))
}

/// Returns the metrics of a run.
fn known(all: &Transaction<'_>, id: &str) -> rusqlite::Result<BTreeSet<String>> {
    let mut keys = all.prepare("SELECT key FROM latest_metrics WHERE run_uuid = ?1")?;
    keys.query_map(params![id], |row| row.get(0))?.collect()
}

/// Adds the numbers of a result.
fn add(all: &Transaction<'_>, id: &str, numbers: &[(String, f64)], step: u64) -> rusqlite::Result<()> {
    let columns = "(key, value, timestamp, run_uuid, step, is_nan) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut metric = all.prepare(&format!("INSERT OR IGNORE INTO metrics {columns}"))?;
    let mut latest = all.prepare(&format!("INSERT OR REPLACE INTO latest_metrics {columns}"))?;
    let (now, step) = (time(), i64::try_from(step).unwrap_or(i64::MAX));
    for (name, number) in numbers {
        let (value, is_nan) = kept(*number);
        let row = params![name, value, now, id, step, is_nan];
        metric.execute(row)?;
        latest.execute(row)?;
    }
    Ok(())
}

/// Milliseconds since 1970, as SQLite keeps integers.
fn time() -> i64 {
    now() as i64
}

/// Returns a number as MLflow keeps it, and whether it is NaN.
fn kept(number: f64) -> (f64, bool) {
    if number.is_nan() { (0.0, true) } else { (number.clamp(f64::MIN, f64::MAX), false) }
}

/// Removes the results after `iteration`.
fn cut(all: &Transaction<'_>, id: &str, iteration: u64) -> rusqlite::Result<()> {
    let find = "SELECT max(step) FROM metrics WHERE run_uuid = ?1 AND key = ?2 AND value <= ?3";
    let last: Option<i64> =
        all.query_row(find, params![id, ITERATION, iteration as f64], |row| row.get(0))?;
    let later = "DELETE FROM metrics WHERE run_uuid = ?1 AND step > ?2";
    if all.execute(later, params![id, last.unwrap_or(-1)])? == 0 {
        return Ok(());
    }
    all.execute("DELETE FROM latest_metrics WHERE run_uuid = ?1", params![id])?;
    let newest = "INSERT INTO latest_metrics (key, value, timestamp, run_uuid, step, is_nan) \
                  SELECT key, value, timestamp, run_uuid, step, is_nan FROM (SELECT *, row_number() OVER \
                  (PARTITION BY key ORDER BY step DESC, timestamp DESC, value DESC) AS place FROM metrics \
                  WHERE run_uuid = ?1) WHERE place = 1";
    all.execute(newest, params![id]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_as_in_mlflow() {
        // `SqlAlchemyStore.sanitize_metric_value` of MLflow 3.17.2.
        assert_eq!(kept(1.5), (1.5, false));
        assert_eq!(kept(f64::NAN), (0.0, true));
        assert_eq!(kept(f64::INFINITY), (1.797_693_134_862_315_7e308, false));
        assert_eq!(kept(f64::NEG_INFINITY), (-1.797_693_134_862_315_7e308, false));
    }
}
