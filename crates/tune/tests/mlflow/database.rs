//! The SQLite file of MLflow, compared with the rows that MLflow itself writes, and read by MLflow where it is installed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use pavlov_tune::loggers::{Logger, MlflowLogger};
use pavlov_tune::{Config, TrialContext};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use super::{log, ready, trial};
use crate::counter::object;

/// What MLflow says of the only run of the experiment, in the file that it reads by default.
const READER: &str = r#"
import json, math, mlflow
(run,) = mlflow.search_runs(experiment_names=["pole"], output_format="list")
client = mlflow.MlflowClient()
shown = lambda value: "NaN" if math.isnan(value) else value
history = lambda key: [[m.step, shown(m.value)] for m in client.get_metric_history(run.info.run_id, key)]
print(json.dumps({"version": mlflow.__version__, "id": run.info.run_id, "name": run.info.run_name, "status": run.info.status,
    "params": run.data.params, "reward": history("rollout/episode_reward_mean"), "kl": history("train/kl"),
    "latest": shown(run.data.metrics["train/kl"]), "source": run.data.tags["mlflow.source.name"],
    "experiments": sorted(e.name for e in client.search_experiments()), "is_ended": run.info.end_time > run.info.start_time}))
"#;

/// A logger that is ready, as a process creates it that begins or continues the run.
fn logger(home: &Path) -> MlflowLogger {
    ready(MlflowLogger::beside_run("pole"), home)
}

/// The file, opened by another program for reading.
fn tables(home: &Path) -> Connection {
    Connection::open_with_flags(home.join("mlflow.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn query<T: rusqlite::types::FromSql>(home: &Path, sql: &str) -> Vec<T> {
    let tables = tables(home);
    let mut rows = tables.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Steps and values of a metric.
fn metric(home: &Path, name: &str) -> Vec<(i64, f64)> {
    let tables = tables(home);
    let mut rows = tables.prepare("SELECT step, value FROM metrics WHERE key = ?1 ORDER BY step").unwrap();
    rows.query_map([name], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

/// A result without a number for `train/kl`.
fn log_nan(logger: &mut MlflowLogger, iteration: u64) {
    let result = json!({"training_iteration": iteration, "timesteps_total": 100 * iteration,
        "episode_reward_mean": 1.5 * iteration as f64, "info": {"learner": {"default_policy": {"learner_stats": {"kl": null}}}},
        "custom_metrics": {"leaning_mean": 0.5}, "odd name!": 1.0, "a": 1, "b": null});
    logger.on_result(&object(result)).unwrap();
}

/// All rows of the tables of a run, with the same words for what differs from run to run, as `record_mlflow.py` writes them.
fn rows(home: &Path) -> Value {
    let tables = tables(home);
    let mut found = serde_json::Map::new();
    for table in ["experiments", "runs", "params", "tags", "metrics", "latest_metrics"] {
        let mut select = tables.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let names: Vec<String> = select.column_names().map(str::to_owned).collect();
        let mut lines: Vec<BTreeMap<&str, Value>> = Vec::new();
        let mut all = select.query([]).unwrap();
        while let Some(row) = all.next().unwrap() {
            let value = |i: usize, name: &str| match row.get_ref(i).unwrap() {
                _ if name == "run_uuid" => json!("RUN"),
                ValueRef::Null => Value::Null,
                _ if name == "timestamp" || name.ends_with("_time") => json!("TIME"),
                ValueRef::Text(_) if name.starts_with("artifact_") => json!("ARTIFACTS"),
                ValueRef::Integer(number) => json!(number),
                ValueRef::Real(number) => json!(number),
                ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
                ValueRef::Blob(_) => panic!("no bytes"),
            };
            lines.push(names.iter().enumerate().map(|(i, name)| (name.as_str(), value(i, name))).collect());
        }
        lines.sort_by_key(|line| json!(line).to_string());
        found.insert(table.into(), json!(lines));
    }
    found.into()
}

#[test]
fn the_rows_are_those_that_mlflow_writes() {
    let home = tempfile::tempdir().unwrap();
    let mut logger = logger(home.path());
    log(&mut logger, 1);
    log_nan(&mut logger, 2);
    logger.close().unwrap();
    let mut recorded: Value = serde_json::from_str(include_str!("../fixtures/mlflow.json")).unwrap();
    let mut written = rows(home.path());
    for rows in [&mut recorded, &mut written] {
        for lines in rows.as_object_mut().unwrap().values_mut() {
            let lines = lines.as_array_mut().unwrap();
            for line in lines.iter_mut() {
                // `record_mlflow.py` writes 1, SQLite keeps 1.0, and both are the same number in this column.
                if let Some(value) = line.get_mut("value").filter(|value| value.is_number()) {
                    *value = json!(value.as_f64());
                }
                if line["key"] == "pavlov.run_directory" {
                    line["value"] = json!("DIRECTORY");
                }
            }
            lines.sort_by_key(Value::to_string);
        }
    }
    for (table, lines) in recorded.as_object().unwrap() {
        assert_eq!(written[table], *lines, "{table}");
    }
}

#[test]
fn a_run_that_failed_is_failed_until_it_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let status = || query::<String>(home.path(), "SELECT status FROM runs");
    let mut first = logger(home.path());
    assert_eq!(status(), ["RUNNING"]);
    log(&mut first, 1);
    first.failed();
    first.close().unwrap();
    assert_eq!(status(), ["FAILED"]);
    let mut second = logger(home.path());
    assert_eq!(status(), ["RUNNING"]);
    assert_eq!(query::<Option<i64>>(home.path(), "SELECT end_time FROM runs"), [None]);
    second.failed();
    log(&mut second, 2);
    second.close().unwrap();
    assert_eq!(status(), ["FINISHED"]);
}

#[test]
fn a_run_that_goes_on_keeps_its_id_and_what_came_after_its_checkpoint_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let mut first = logger(home.path());
    (1..=3).for_each(|iteration| log(&mut first, iteration));
    drop(first);
    let before: Vec<String> = query(home.path(), "SELECT run_uuid FROM runs");
    // A process goes on from the checkpoint of iteration 2.
    let mut second = logger(home.path());
    second.rewind(2).unwrap();
    assert_eq!(metric(home.path(), "train/kl").last(), Some(&(200, 0.25)));
    let latest = "SELECT value FROM latest_metrics WHERE key = 'rollout/episode_reward_mean'";
    assert_eq!(query::<f64>(home.path(), latest), [3.0]);
    (3..=4).for_each(|iteration| log(&mut second, iteration));
    second.sync().unwrap();
    assert_eq!(query::<f64>(home.path(), latest), [6.0]);
    second.close().unwrap();
    assert_eq!(query::<String>(home.path(), "SELECT run_uuid FROM runs"), before);
    for name in ["training_iteration", "train/kl", "a"] {
        let steps: Vec<i64> = metric(home.path(), name).into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps, [100, 200, 300, 400], "{name}");
    }
    // A run that begins again has its own results only.
    let mut third = logger(home.path());
    log(&mut third, 1);
    assert_eq!(metric(home.path(), "train/kl"), [(100, 0.25)]);
    assert_eq!(query::<f64>(home.path(), latest), [1.5]);
}

#[test]
fn a_file_that_was_deleted_or_replaced_gets_the_run_again() {
    for (leftovers, replaced) in [(false, false), (true, false), (false, true)] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("mlflow.db");
        let mut logger = logger(home.path());
        (1..=2).for_each(|iteration| log(&mut logger, iteration));
        let before = rows(home.path());
        fs::remove_file(&path).unwrap();
        if !leftovers {
            for name in ["mlflow.db-wal", "mlflow.db-shm"] {
                fs::remove_file(home.path().join(name)).unwrap();
            }
        }
        if replaced {
            // Another run has made a file of that name.
            let mut other = MlflowLogger::beside_run("another");
            let trial = TrialContext { logdir: home.path().join("second run"), ..trial(home.path()) };
            fs::create_dir_all(&trial.logdir).unwrap();
            other.setup(&Config::new(), &trial).unwrap();
            other.close().unwrap();
        }
        let name = path.display().to_string();
        assert_eq!(logger.keep_in(home.path()).unwrap(), Some(name));
        assert_eq!(logger.keep_in(home.path()).unwrap(), None);
        if !replaced {
            assert_eq!(rows(home.path()), before);
        }
        log(&mut logger, 3);
        fs::remove_file(&path).unwrap();
        logger.close().unwrap();
        let steps: Vec<i64> = metric(home.path(), "train/kl").into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps, [100, 200, 300]);
        let of_run =
            "SELECT status FROM runs JOIN experiments USING (experiment_id) WHERE experiments.name = 'pole'";
        assert_eq!(query::<String>(home.path(), of_run), ["FINISHED"]);
        assert_eq!(query::<String>(home.path(), "PRAGMA integrity_check"), ["ok"]);
    }
    // A folder that is gone is not made again.
    let home = tempfile::tempdir().unwrap();
    let mut logger = logger(home.path());
    log(&mut logger, 1);
    fs::remove_dir_all(home.path()).unwrap();
    assert_eq!(logger.keep_in(home.path()).unwrap(), None);
    logger.close().unwrap();
    assert!(!home.path().exists());
}

#[test]
fn runs_that_begin_at_the_same_moment_share_a_file_and_an_experiment() {
    for _ in 0..5 {
        let home = tempfile::tempdir().unwrap();
        let start = Barrier::new(8);
        let train = &|i: usize| {
            let logdir = home.path().join(format!("run {i}"));
            fs::create_dir_all(&logdir).unwrap();
            let trial = TrialContext { logdir, ..trial(home.path()) };
            start.wait();
            let mut logger = MlflowLogger::beside_run("pole");
            logger.setup(&object(json!({"lr": 0.001})), &trial).unwrap();
            (1..=10).for_each(|iteration| log(&mut logger, iteration));
            logger.close().unwrap();
        };
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..8).map(|i| scope.spawn(move || train(i))).collect();
            runs.into_iter().for_each(|run| run.join().unwrap());
        });
        let names: Vec<String> = query(home.path(), "SELECT name FROM experiments ORDER BY name");
        assert_eq!(names, ["Default", "pole"]);
        assert_eq!(query::<i64>(home.path(), "SELECT count(*) FROM runs WHERE status = 'FINISHED'"), [8]);
        assert_eq!(metric(home.path(), "train/kl").len(), 80);
        assert_eq!(query::<String>(home.path(), "PRAGMA integrity_check"), ["ok"]);
    }
}

#[test]
fn a_reader_in_the_middle_of_its_work_does_not_stop_a_run() {
    let home = tempfile::tempdir().unwrap();
    let mut logger = logger(home.path());
    log(&mut logger, 1);
    let reader = tables(home.path());
    reader.execute_batch("BEGIN").unwrap();
    let count = || reader.query_row("SELECT count(*) FROM metrics", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = count();
    log(&mut logger, 2);
    assert_eq!(count(), before, "the reader sees the state of its beginning");
    assert_eq!(metric(home.path(), "train/kl").len(), 2, "a new reader sees the new result");
}

/// Changes the file as another program would.
fn change(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn refusal(home: &Path) -> String {
    let mut logger = MlflowLogger::beside_run("pole");
    logger.setup(&Config::new(), &trial(home)).unwrap_err().to_string()
}

#[test]
fn a_file_of_a_later_mlflow_with_the_same_tables_is_written_to_and_one_with_other_tables_is_refused() {
    let home = tempfile::tempdir().unwrap();
    logger(home.path()).close().unwrap();
    let path = home.path().join("mlflow.db");
    change(
        &path,
        "UPDATE alembic_version SET version_num = 'feed'; ALTER TABLE runs ADD COLUMN colour TEXT;",
    );
    log(&mut logger(home.path()), 1);
    assert_eq!(metric(home.path(), "train/kl").len(), 1);
    change(&path, "ALTER TABLE metrics RENAME COLUMN is_nan TO is_missing;");
    let error = refusal(home.path());
    let schema = include_str!("../../src/loggers/mlflow/schema.sql");
    let (_, known) = schema.split_once("INSERT INTO \"alembic_version\" VALUES('").unwrap();
    let (known, _) = known.split_once('\'').unwrap();
    for part in
        [path.to_str().unwrap(), "feed", known, "`metrics`", "mlflow db upgrade sqlite:///", "mlflow-folder"]
    {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn what_is_no_file_of_mlflow_is_refused_with_its_name() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("mlflow.db");
    let refused = |word: &str| {
        let error = refusal(home.path());
        assert!(error.contains(word) && error.contains(path.to_str().unwrap()), "{error}");
    };
    fs::write(&path, "The quick brown fox jumps over the lazy dog. ".repeat(100)).unwrap();
    refused("no SQLite file");
    fs::remove_file(&path).unwrap();
    change(&path, "CREATE TABLE contacts (name TEXT)");
    refused("another program");
    assert_eq!(query::<String>(home.path(), "SELECT name FROM sqlite_master"), ["contacts"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused("it is a folder");
    fs::remove_dir(&path).unwrap();
    let elsewhere = home.path().join("elsewhere");
    symlink(&elsewhere, &path).unwrap();
    refused("it is a link");
    assert!(!elsewhere.exists());
}

#[test]
fn an_experiment_that_was_deleted_is_refused_with_the_way_to_bring_it_back() {
    let home = tempfile::tempdir().unwrap();
    logger(home.path()).close().unwrap();
    change(
        &home.path().join("mlflow.db"),
        "UPDATE experiments SET lifecycle_stage = 'deleted' WHERE name = 'pole'",
    );
    // The run itself goes on.
    logger(home.path()).close().unwrap();
    fs::remove_file(trial(home.path()).logdir.join("mlflow-db.json")).unwrap();
    assert!(refusal(home.path()).contains("mlflow experiments restore --experiment-id 1"));
}

#[test]
fn an_id_that_a_stranger_wrote_names_a_run_only_if_it_is_an_id() {
    let home = tempfile::tempdir().unwrap();
    fs::write(trial(home.path()).logdir.join("mlflow-db.json"), r#"{"run_id": "' OR 1"}"#).unwrap();
    logger(home.path()).close().unwrap();
    assert_eq!(query::<String>(home.path(), "SELECT run_uuid FROM runs")[0].len(), 32);
}

#[test]
#[ignore = "needs MLflow: PAVLOV_TEST_MLFLOW names a Python with mlflow-skinny 3.13 or later, alembic, pandas and sqlalchemy"]
fn mlflow_reads_the_run_by_default() {
    let python = std::env::var_os("PAVLOV_TEST_MLFLOW").expect("a Python with mlflow-skinny");
    let home = tempfile::tempdir().unwrap();
    let mut logger = logger(home.path());
    log(&mut logger, 1);
    log_nan(&mut logger, 2);
    std::thread::sleep(std::time::Duration::from_millis(2));
    logger.close().unwrap();
    let read = || {
        let mut command = Command::new(&python);
        command.args(["-c", READER]).current_dir(home.path()).env_remove("MLFLOW_TRACKING_URI");
        let output = command.output().expect("Python");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    // MLflow reads, and adds its own tables, while another run writes.
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(read);
        let mut other = MlflowLogger::beside_run("other");
        let logdir = home.path().join("other run");
        fs::create_dir(&logdir).unwrap();
        other.setup(&Config::new(), &TrialContext { logdir, ..trial(home.path()) }).unwrap();
        let mut count = 0;
        while !reader.is_finished() {
            count += 1;
            log(&mut other, count);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        other.close().unwrap();
        println!("{count} results were written while MLflow read");
        let written =
            "SELECT count(*) FROM metrics JOIN runs USING (run_uuid) WHERE name = 'other run' AND key = 'a'";
        assert_eq!(query::<i64>(home.path(), written), [count as i64]);
        assert_eq!(query::<String>(home.path(), "PRAGMA integrity_check"), ["ok"]);
        reader.join().unwrap()
    });
    println!("MLflow {}", read["version"]);
    let id = "SELECT run_uuid FROM runs WHERE name = 'first run'";
    assert_eq!(read["id"], query::<String>(home.path(), id)[0]);
    assert_eq!(
        (&read["name"], &read["status"], &read["source"], &read["is_ended"]),
        (&json!("first run"), &json!("FINISHED"), &json!("pavlov"), &json!(true))
    );
    assert_eq!(read["params"], json!({"lr": "0.001", "model.fcnet_hiddens": "[8,8]", "env": "CartPole-v1"}));
    assert_eq!(
        (&read["reward"], &read["kl"], &read["latest"]),
        (&json!([[100, 1.5], [200, 3.0]]), &json!([[100, 0.25], [200, "NaN"]]), &json!("NaN"))
    );
    for name in ["Default", "pole"] {
        assert!(read["experiments"].as_array().unwrap().contains(&json!(name)), "{read}");
    }
}
