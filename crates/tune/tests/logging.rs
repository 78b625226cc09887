//! The files of a run: result.json, progress.csv, params.json, and how they follow kills and restores.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use pavlov_tune::loggers::{CsvLogger, JsonLogger, Logger, read_results};
use pavlov_tune::{
    Config, Driver, Error, ExecutorKind, LoggerChoice, Metrics, Result, RunOptions, TrainableFactory,
    TrialContext, Tuner, child_main, difference,
};
use serde_json::{Value, json};

use crate::child::{child_home, in_child};
use crate::counter::{Counter, logged, object};

fn iterations(run_dir: &Path) -> Vec<u64> {
    read_results(run_dir)
        .unwrap()
        .iter()
        .map(|result| result["training_iteration"].as_u64().unwrap())
        .collect()
}

fn csv(run_dir: &Path) -> Vec<String> {
    fs::read_to_string(run_dir.join("progress.csv")).unwrap().lines().map(String::from).collect()
}

fn log(run_dir: &Path, results: &[Value]) {
    let mut json = JsonLogger::open(run_dir).unwrap();
    let mut csv = CsvLogger::open(run_dir).unwrap();
    for result in results {
        json.on_result(&object(result.clone())).unwrap();
        csv.on_result(&object(result.clone())).unwrap();
    }
}

#[test]
fn results_with_an_endless_line_are_refused_from_both_ends() {
    let home = tempfile::tempdir().unwrap();
    log(home.path(), &[json!({"a": 1})]);
    let path = home.path().join("result.json");
    OpenOptions::new().write(true).open(&path).unwrap().set_len(300_000_000).unwrap();
    let from_start = read_results(home.path()).unwrap_err().to_string();
    let from_end = JsonLogger::open(home.path()).unwrap_err().to_string();
    for message in [from_start, from_end] {
        let expected = format!(
            "cannot read {}: a line has 268435457 bytes or more, but pavlov reads 268435456 at most; cut the file off \
             before that line, or put a copy of it in its place",
            path.display()
        );
        assert_eq!(message, expected);
    }
    // The table can be made again.
    OpenOptions::new().write(true).open(&path).unwrap().set_len("{\"a\":1}\n".len() as u64).unwrap();
    let table = home.path().join("progress.csv");
    OpenOptions::new().write(true).open(&table).unwrap().set_len(300_000_000).unwrap();
    log(home.path(), &[json!({"a": 2})]);
    assert_eq!(csv(home.path()), ["a", "1", "2"]);
}

#[test]
fn results_are_one_json_object_per_line_and_params_the_settings() {
    let home = tempfile::tempdir().unwrap();
    let config: Config = object(json!({"by": 2}));
    let options = RunOptions { logdir: Some(home.path().into()), ..RunOptions::default() };
    let mut driver = Driver::with(Counter::default(), config.clone(), options).unwrap();
    let results = [driver.train().unwrap(), driver.train().unwrap()];
    let text = fs::read_to_string(home.path().join("result.json")).unwrap();
    let lines: Vec<Metrics> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, results);
    assert!(text.ends_with('\n'));
    let params: Config = serde_json::from_slice(&fs::read(home.path().join("params.json")).unwrap()).unwrap();
    assert_eq!(params, config);
}

#[test]
fn the_table_joins_nested_keys_and_leaves_out_settings_and_lists() {
    let home = tempfile::tempdir().unwrap();
    log(
        home.path(),
        &[
            json!({"a": 1, "info": {"loss": 0.5, "name": "x,\"y\""}, "hist": [1, 2], "config": {"lr": 1}, "ok": true, "none": null}),
        ],
    );
    assert_eq!(csv(home.path()), ["a,info/loss,info/name,ok,none", "1,0.5,\"x,\"\"y\"\"\",true,"]);
}

#[test]
fn the_table_is_rewritten_when_a_column_appears() {
    let home = tempfile::tempdir().unwrap();
    log(home.path(), &[json!({"a": 1}), json!({"a": 2, "evaluation": {"reward": 9}}), json!({"a": 3})]);
    assert_eq!(csv(home.path()), ["a,evaluation/reward", "1,", "2,9", "3,"]);
}

#[test]
fn the_table_takes_up_where_a_killed_process_left_it() {
    let home = tempfile::tempdir().unwrap();
    log(home.path(), &[json!({"a": 1}), json!({"a": 2})]);
    let mut table = OpenOptions::new().append(true).open(home.path().join("progress.csv")).unwrap();
    table.write_all(b"2.9999").unwrap();
    log(home.path(), &[json!({"a": 3})]);
    assert_eq!(csv(home.path()), ["a", "1", "2", "3"]);
}

#[test]
fn a_line_broken_by_a_kill_is_cut_off_before_the_next() {
    let home = tempfile::tempdir().unwrap();
    log(home.path(), &[json!({"a": 1})]);
    // Longer than the blocks in which the end is searched for.
    let broken = format!("{{\"a\": \"{}", "x".repeat(200_000));
    let mut file = OpenOptions::new().append(true).open(home.path().join("result.json")).unwrap();
    file.write_all(broken.as_bytes()).unwrap();
    assert_eq!(read_results(home.path()).unwrap(), [object(json!({"a": 1}))]);
    log(home.path(), &[json!({"a": 2})]);
    assert_eq!(fs::read_to_string(home.path().join("result.json")).unwrap(), "{\"a\":1}\n{\"a\":2}\n");
}

#[test]
fn a_broken_line_in_the_middle_is_named() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("result.json"), "{\"a\":1}\noops\n{\"a\":3}\n").unwrap();
    let message = read_results(home.path()).unwrap_err().to_string();
    assert!(message.contains("result.json: line 2 is not a JSON object"), "{message}");
}

#[test]
fn after_a_restore_the_files_are_what_an_undisturbed_run_would_have_written() {
    let straight = tempfile::tempdir().unwrap();
    let mut driver = logged(Counter::default(), straight.path());
    (0..4).for_each(|_| drop(driver.train().unwrap()));

    let home = tempfile::tempdir().unwrap();
    let mut driver = logged(Counter::default(), home.path());
    driver.train().unwrap();
    driver.train().unwrap();
    let checkpoint = driver.save().unwrap();
    driver.train().unwrap();
    // The process is killed here; the next one goes on from the checkpoint, and then once more in place.
    std::mem::forget(driver);
    let mut driver = logged(Counter::default(), home.path());
    driver.restore(&checkpoint).unwrap();
    driver.train().unwrap();
    assert_eq!(iterations(home.path()), [1, 2, 3]);
    driver.restore(&checkpoint).unwrap();
    driver.train().unwrap();
    driver.train().unwrap();

    assert_eq!(iterations(home.path()), [1, 2, 3, 4]);
    let expected = read_results(straight.path()).unwrap();
    let found = read_results(home.path()).unwrap();
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(difference(expected, found), None);
    }
    assert_eq!(csv(home.path()).len(), 5);
}

#[test]
fn a_checkpoint_of_another_run_drops_no_results() {
    let donor = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut driver = logged(Counter::default(), donor.path());
    driver.train().unwrap();
    let checkpoint = driver.save().unwrap();
    let mut driver = logged(Counter::default(), home.path());
    (0..3).for_each(|_| drop(driver.train().unwrap()));
    driver.restore(&checkpoint).unwrap();
    driver.train().unwrap();
    assert_eq!(iterations(home.path()), [1, 2, 3, 2]);
}

#[test]
fn a_reset_in_place_goes_on_in_the_same_files_with_new_params() {
    let home = tempfile::tempdir().unwrap();
    let mut driver = logged(Counter::default(), home.path());
    driver.train().unwrap();
    assert!(driver.reset(object(json!({"by": 5})), None).unwrap());
    driver.train().unwrap();
    assert_eq!(iterations(home.path()), [1, 1]);
    let params: Value = serde_json::from_slice(&fs::read(home.path().join("params.json")).unwrap()).unwrap();
    assert_eq!(params, json!({"by": 5}));
}

#[test]
fn an_unwritable_run_directory_is_named_and_the_iteration_counts() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let mut driver = logged(Counter::default(), &file);
    let message = driver.train().unwrap_err().to_string();
    assert_eq!(message, format!("cannot create {}: File exists (os error 17)", file.display()));
    assert_eq!(driver.iteration(), 1);
    assert_eq!(driver.last_result().unwrap()["total"], 1);
}

/// Writes what it is told to `told.txt` in the directory that it was set up with.
#[derive(Default)]
struct Told {
    file: Option<fs::File>,
}

impl Told {
    fn write(&mut self, line: String) -> Result<()> {
        let file = self.file.as_mut().expect("`setup` comes first");
        writeln!(file, "{line}").map_err(Error::other)
    }
}

impl Logger for Told {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        let path = trial.logdir.join("told.txt");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        self.file = Some(file.map_err(Error::io("open", &path))?);
        self.write(format!("setup by {} of {}", config["by"], trial.trial_name))
    }
    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        self.write(format!("result {}", result["total"]))
    }
    fn rewind(&mut self, iteration: u64) -> Result<()> {
        self.write(format!("rewind to {iteration}"))
    }
    fn failed(&mut self) {
        self.write("failed".into()).unwrap();
    }
    fn close(&mut self) -> Result<()> {
        self.write("close".into())
    }
}

fn told(dir: &Path) -> Vec<String> {
    fs::read_to_string(dir.join("told.txt")).unwrap().lines().map(String::from).collect()
}

#[test]
fn a_logger_is_told_directory_and_settings_and_stands_beside_the_default_ones() {
    let home = tempfile::tempdir().unwrap();
    let loggers = LoggerChoice::DefaultAnd(vec![Box::new(Told::default())]);
    let options = RunOptions { logdir: Some(home.path().join("run")), loggers, ..RunOptions::default() };
    let mut driver = Driver::with(Counter::default(), object(json!({"by": 2})), options).unwrap();
    driver.train().unwrap();
    let checkpoint = driver.save().unwrap();
    driver.train().unwrap();
    driver.restore(&checkpoint).unwrap();
    driver.train().unwrap();
    driver.fail_next = true;
    driver.train().unwrap_err();
    assert!(driver.reset(object(json!({"by": 5})), None).unwrap());
    driver.train().unwrap();
    driver.stop().unwrap();
    let expected = ["setup by 2 of default", "result 2", "result 4", "rewind to 1", "result 4", "failed"];
    let after_reset = ["setup by 5 of default", "result 5", "close"];
    assert_eq!(told(&home.path().join("run")), [&expected[..], &after_reset].concat());
    assert_eq!(iterations(&home.path().join("run")), [1, 2, 1]);
}

#[test]
fn loggers_of_ones_own_can_stand_alone() {
    let home = tempfile::tempdir().unwrap();
    let loggers = LoggerChoice::Custom(vec![Box::new(Told::default())]);
    let options = RunOptions { logdir: Some(home.path().join("run")), loggers, ..RunOptions::default() };
    let mut driver = Driver::with(Counter::default(), object(json!({"by": 2})), options).unwrap();
    driver.train().unwrap();
    driver.stop().unwrap();
    assert_eq!(told(&home.path().join("run")), ["setup by 2 of default", "result 2", "close"]);
    assert!(!home.path().join("run/result.json").exists());
}

/// Two trials of a counter that has a logger, in the directory of [`child_home`].
fn sweep(executor: ExecutorKind) {
    let counters = TrainableFactory::new("counter", |_| Ok(Counter::default())).with_logger(Told::default);
    child_main(&[&counters]);
    let mut tuner = Tuner::new(counters).space(json!({"by": {"grid_search": [2, 3]}}));
    tuner.run_config.name = Some(format!("{executor:?}"));
    tuner.run_config.storage_path = Some(child_home());
    tuner.run_config.stop = Some(Box::new(pavlov_tune::stoppers::MaximumIterationStopper::new(2)));
    tuner.tune_config.executor = executor;
    let grid = tuner.fit().unwrap();
    let by = |trial: &pavlov_tune::TrialResult| trial.config["by"].as_u64().unwrap();
    for trial in grid.iter() {
        let by = by(trial);
        let lines = told(&trial.path);
        assert!(lines[0].starts_with(&format!("setup by {by} of counter_")), "{lines:?}");
        let results = [format!("result {by}"), format!("result {}", 2 * by)];
        assert_eq!(lines[1..], ["rewind to 0", &results[0], &results[1], "close"]);
        assert_eq!(iterations(&trial.path), [1, 2]);
    }
    assert_eq!(grid.len(), 2);
}

#[test]
#[ignore = "run by the next test, in a process of its own"]
fn child_sweeps_in_threads() {
    sweep(ExecutorKind::Threads);
}

#[test]
#[ignore = "run by the next test, in a process of its own"]
fn child_sweeps_in_processes() {
    sweep(ExecutorKind::Processes);
}

#[test]
fn each_trial_of_a_sweep_has_its_loggers_in_threads_and_in_processes() {
    let home = tempfile::tempdir().unwrap();
    for test in ["child_sweeps_in_threads", "child_sweeps_in_processes"] {
        let child = in_child(&format!("logging::{test}"), home.path(), "");
        let text = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success() && text.contains("1 passed"), "{text}");
    }
}

/// As a power cut or a bad disk leaves it: one bit of the file is another one.
fn flip_a_bit(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_an_old_row_stops_neither_a_restore_nor_a_new_column_and_the_row_stays() {
    let home = tempfile::tempdir().unwrap();
    let mut driver = logged(Counter::default(), home.path());
    for _ in 0..4 {
        driver.train().unwrap();
    }
    let checkpoint = driver.save().unwrap();
    driver.train().unwrap();
    drop(driver);
    let log = home.path().join("result.json");
    flip_a_bit(&log, 0);
    let damaged = fs::read_to_string(&log).unwrap().lines().next().unwrap().to_string();

    let mut driver = logged(Counter::default(), home.path());
    driver.restore(&checkpoint).unwrap();
    driver.next_result = Some(object(json!({"total": 5, "new_column": 1})));
    driver.train().unwrap();
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (5, &*damaged));
    let rows: Vec<Value> = lines[1..].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let iterations: Vec<u64> = rows.iter().map(|row| row["training_iteration"].as_u64().unwrap()).collect();
    assert_eq!(iterations, [2, 3, 4, 5]);
    // The table is made from the rows that can be read.
    assert_eq!(csv(home.path()).len(), 1 + 4);
}

#[test]
fn a_damaged_row_before_those_that_are_dropped_stays() {
    let home = tempfile::tempdir().unwrap();
    let row = |iteration: u64| json!({"training_iteration": iteration}).to_string();
    fs::write(home.path().join("result.json"), [&row(1), "damaged", &row(3), "too", &row(4), ""].join("\n"))
        .unwrap();
    let mut json = JsonLogger::open(home.path()).unwrap();
    json.rewind(2).unwrap();
    let text = fs::read_to_string(home.path().join("result.json")).unwrap();
    assert_eq!(text, [&row(1), "damaged", ""].join("\n"));
}

/// Bytes that this thread has read from files so far.
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn a_restored_run_reads_only_the_ends_of_its_logs() {
    let home = tempfile::tempdir().unwrap();
    let mut driver = logged(Counter::default(), home.path());
    driver.ballast = vec![7; 10];
    let ballast = "x".repeat(10_000);
    for total in 0..500 {
        driver.next_result = Some(object(json!({"total": total, "ballast": ballast})));
        driver.train().unwrap();
    }
    let checkpoint = driver.save().unwrap();
    for _ in 0..3 {
        driver.next_result = Some(object(json!({"total": 0, "ballast": ballast})));
        driver.train().unwrap();
    }
    drop(driver);
    let size = |name: &str| fs::metadata(home.path().join(name)).unwrap().len();
    assert!(size("result.json") > 5_000_000 && size("progress.csv") > 5_000_000);
    let mut driver = logged(Counter::default(), home.path());
    let before = bytes_read();
    driver.restore(&checkpoint).unwrap();
    driver.next_result = Some(object(json!({"total": 0, "ballast": ballast})));
    driver.train().unwrap();
    let read = bytes_read() - before;
    assert!(read < 1_500_000, "{read} bytes were read");
    assert_eq!(iterations(home.path()), (1..=501).collect::<Vec<u64>>());
    assert_eq!(csv(home.path()).len(), 1 + 501);
}

#[test]
fn a_table_that_is_behind_its_results_is_made_anew() {
    let home = tempfile::tempdir().unwrap();
    log(home.path(), &[json!({"a": 1}), json!({"a": 2})]);
    // As after a kill between the two files.
    let mut json = JsonLogger::open(home.path()).unwrap();
    json.on_result(&object(json!({"a": 3}))).unwrap();
    log(home.path(), &[json!({"a": 4})]);
    assert_eq!(csv(home.path()), ["a", "1", "2", "3", "4"]);
    // As after a power cut that took a result, and after the header was lost.
    fs::write(home.path().join("result.json"), "{\"a\":1}\n{\"a\":2}\n").unwrap();
    log(home.path(), &[json!({"a": 5})]);
    assert_eq!(csv(home.path()), ["a", "1", "2", "5"]);
    fs::write(home.path().join("progress.csv"), "b\n1\n2\n5\n").unwrap();
    log(home.path(), &[json!({"a": 6})]);
    assert_eq!(csv(home.path()), ["a", "1", "2", "5", "6"]);
}

/// Notes when it is told to make its results durable.
struct Durable(crate::counter::Calls);

impl Logger for Durable {
    fn on_result(&mut self, _: &Metrics) -> pavlov_tune::Result<()> {
        self.0.lock().unwrap().push("on_result".into());
        Ok(())
    }
    fn sync(&mut self) -> pavlov_tune::Result<()> {
        self.0.lock().unwrap().push("sync".into());
        Ok(())
    }
}

#[test]
fn results_are_made_durable_before_each_checkpoint_is_written() {
    let home = tempfile::tempdir().unwrap();
    let counter = Counter::default();
    let calls = counter.calls.clone();
    let loggers = LoggerChoice::Custom(vec![Box::new(Durable(calls.clone()))]);
    let options = RunOptions { logdir: Some(home.path().into()), loggers, ..RunOptions::default() };
    let mut driver = Driver::with(counter, Config::new(), options).unwrap();
    driver.train().unwrap();
    driver.save().unwrap();
    let calls = calls.lock().unwrap().clone();
    assert_eq!(calls[calls.len() - 3..], ["on_result", "sync", "save_checkpoint"]);
}
