//! Runs and sweeps whose files or directories are deleted while they train.

use std::fs;
use std::path::{Path, PathBuf};

use pavlov_tune::loggers::read_results;
use pavlov_tune::{
    Callback, Config, Driver, Error, ExperimentFile, Metrics, Restore, Result, RunOptions, Trainable, Trial,
    TrialStatus, Tuner, checkpoint,
};
use serde_json::json;

use crate::counter::{Counter, logged, object};
use crate::sweeps::{counters, tuner};

/// Deletes everything in a directory, as `rm -rf` does that fails at the directory itself.
fn empty(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(&path).unwrap() } else { fs::remove_file(&path).unwrap() }
    }
}

fn iterations(run: &Path) -> Vec<u64> {
    let results = read_results(run).unwrap();
    results.iter().map(|result| result["training_iteration"].as_u64().unwrap()).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn files_that_are_deleted_during_training_are_written_again_with_all_results() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    let mut driver = logged(Counter::default(), &run);
    driver.train().unwrap();
    fs::write(run.join("run.json"), "mine").unwrap();
    driver.keep_file("run.json", b"mine".to_vec());
    driver.train().unwrap();
    driver.save().unwrap();
    let before = names(&run);
    empty(&run);
    driver.train().unwrap();
    let without_checkpoint: Vec<&String> = before.iter().filter(|name| !name.starts_with("check")).collect();
    assert_eq!(names(&run).iter().collect::<Vec<_>>(), without_checkpoint);
    assert_eq!(iterations(&run), [1, 2, 3]);
    assert_eq!(fs::read_to_string(run.join("run.json")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(run.join("progress.csv")).unwrap().lines().count(), 1 + 3);
    // Without another result, the next save finds them.
    empty(&run);
    let saved = driver.save().unwrap();
    assert_eq!(iterations(&run), [1, 2, 3]);
    let mut again = logged(Counter::default(), &run);
    again.restore(&saved).unwrap();
    again.train().unwrap();
    assert_eq!((iterations(&run), again.total), (vec![1, 2, 3, 4], 4));
}

#[test]
fn a_run_whose_directory_is_removed_is_saved_beside_it_with_all_results() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let run = home.join("run");
    let mut driver = logged(Counter::default(), &run);
    driver.train().unwrap();
    fs::remove_dir_all(&run).unwrap();
    let error = driver.train().unwrap_err();
    let error = driver.rescue(error).to_string();
    let place = home.join("run.rescued");
    let end = format!("its last state was saved in {}: go on from there", place.display());
    assert!(error.ends_with(&end), "{error}");
    assert!(!run.exists(), "nothing is written where the run is no more");
    assert_eq!(iterations(&place), [1, 2]);
    let mut again = logged(Counter::default(), &place);
    again.restore(checkpoint::latest(&place).unwrap().unwrap()).unwrap();
    again.train().unwrap();
    assert_eq!((iterations(&place), again.total), (vec![1, 2, 3], 3));
    let other = driver.rescue(Error::TrialStopped);
    assert!(matches!(other, Error::TrialStopped));
}

/// Has the files of its first checkpoint deleted while it writes them.
struct Robbed {
    saves: u64,
    times: u64,
}

impl Trainable for Robbed {
    fn step(&mut self) -> Result<Metrics> {
        Ok(object(json!({"total": 1})))
    }

    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.saves += 1;
        let write = |name: &str| fs::write(dir.join(name), "state").map_err(Error::io("write", dir));
        write("first")?;
        if self.saves <= self.times {
            empty(dir);
        }
        write("second")
    }

    fn load_checkpoint(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_checkpoint_whose_files_are_deleted_while_it_is_written_is_written_again_or_the_run_ends() {
    let home = tempfile::tempdir().unwrap();
    let robbed = |times: u64| {
        let run = home.path().join(format!("run{times}"));
        let options = RunOptions { logdir: Some(run), ..RunOptions::default() };
        let mut driver = Driver::with(Robbed { saves: 0, times }, Config::new(), options).unwrap();
        driver.train().unwrap();
        driver
    };
    let saved = robbed(1).save().unwrap();
    checkpoint::verify(&saved, None).unwrap();
    assert_eq!(names(&saved), ["first", "manifest.json", "metadata.json", "second"]);
    let mut driver = robbed(2);
    let error = driver.save().unwrap_err();
    let Error::RunDirectory { rescued: Some(place), .. } = driver.rescue(error) else { panic!("no rescue") };
    let newest = checkpoint::latest(&place).unwrap().unwrap();
    assert!(newest.join("first").exists());
}

/// Does something once, when the sweep has had so many results.
struct Once<F>(usize, Option<F>);

impl<F: FnOnce(&Trial) + Send> Callback for Once<F> {
    fn on_trial_result(&mut self, _: &[Trial], trial: &Trial, _: &Metrics) -> Result<()> {
        self.0 = self.0.saturating_sub(1);
        let is_due = self.0 == 0;
        if let Some(act) = self.1.take_if(|_| is_due) {
            act(trial);
        }
        Ok(())
    }
}

fn sweep(home: &Path) -> Tuner {
    let mut tuner = tuner(counters(), home, 2);
    tuner.tune_config.max_concurrent_trials = Some(1);
    tuner
}

/// Runs a sweep in which `act` is called with the sweep's directory and the trial at the seventh result, the second one of
/// the second trial.
fn disturbed(home: &Path, act: impl Fn(&Path, &Trial) + Send + 'static) -> Result<pavlov_tune::ResultGrid> {
    let mut tuner = sweep(home);
    let dir = home.join("sweep");
    tuner.run_config.callbacks.push(Box::new(Once(7, Some(move |trial: &Trial| act(&dir, trial)))));
    tuner.fit_with(Some(ExperimentFile { name: "mine.toml", content: b"mine".to_vec() }))
}

fn totals(grid: &pavlov_tune::ResultGrid) -> Vec<u64> {
    grid.iter().map(|trial| trial.metrics.as_ref().unwrap()["total"].as_u64().unwrap()).collect()
}

#[test]
fn a_journal_that_is_deleted_while_the_sweep_runs_is_written_again() {
    let home = tempfile::tempdir().unwrap();
    let grid = disturbed(home.path(), |dir, _| {
        fs::remove_file(dir.join("journal.jsonl")).unwrap();
        fs::remove_file(dir.join("mine.toml")).unwrap();
    });
    let grid = grid.unwrap();
    assert_eq!((totals(&grid), grid.num_errors()), (vec![10, 15, 10, 15], 0));
    assert_eq!(fs::read_to_string(home.path().join("sweep/mine.toml")).unwrap(), "mine");
    let again = sweep(home.path()).restore(grid.experiment_path(), Restore::default()).unwrap();
    assert_eq!(totals(&again), totals(&grid));
}

#[test]
fn a_sweep_whose_directory_is_removed_ends_with_an_error_and_goes_on_from_what_was_rescued() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let error = disturbed(&home, |dir, _| fs::remove_dir_all(dir).unwrap()).unwrap_err();
    let place = home.join("sweep.rescued");
    let Error::RunDirectory { path, moved_to: None, rescued } = &error else { panic!("{error}") };
    assert_eq!((path, rescued), (&home.join("sweep"), &Some(place.clone())));
    assert!(!home.join("sweep").exists(), "nothing is written where the sweep is no more");
    assert!(place.join("results.csv").exists() && place.join("mine.toml").exists());
    let again = sweep(&home).restore(&place, Restore::default()).unwrap();
    assert_eq!((totals(&again), again.num_terminated()), (vec![10, 15, 10, 15], 4));
    // The second trial went on where it was.
    assert_eq!(iterations(&again[1].path), [1, 2, 3, 4, 5]);
}

#[test]
fn a_trial_whose_directory_is_removed_goes_on_beside_it_and_counts_as_failed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let grid = disturbed(&home, |dir, trial| fs::remove_dir_all(dir.join(&trial.trial_id)).unwrap()).unwrap();
    let statuses: Vec<TrialStatus> = grid.iter().map(|trial| trial.status).collect();
    let ended = TrialStatus::Terminated;
    assert_eq!(statuses, [ended, TrialStatus::Error, ended, ended]);
    let mut place = grid[1].path.clone().into_os_string();
    place.push(".rescued");
    let place = PathBuf::from(place);
    let said = grid[1].error.as_ref().unwrap();
    let end = format!("was deleted during the sweep; what it saved after that is in {}", place.display());
    assert!(said.ends_with(&end), "{said}");
    assert_eq!((iterations(&place), &grid[1].checkpoint), (vec![1, 2, 3, 4, 5], &None));
    checkpoint::verify(&place.join("checkpoint_000005"), None).unwrap();
}
