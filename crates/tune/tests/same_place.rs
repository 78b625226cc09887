//! A run, a sweep or a run on storage that is begun where one lies already.

use std::fs;
use std::path::Path;

use pavlov_tune::stoppers::MaximumIterationStopper;
use pavlov_tune::{
    Config, Driver, Error, LoggerChoice, Metrics, Restore, Result, ResultGrid, Resume, RunOptions,
    TrialResult, Tuner, checkpoint,
};

use crate::counter::Counter;
use crate::sweeps::{counters, tuner};

fn begun(logdir: &Path, resume: Resume) -> Result<Driver<Counter>> {
    let options = RunOptions { logdir: Some(logdir.into()), resume, ..RunOptions::default() };
    Driver::with(Counter::default(), Config::new(), options)
}

/// Names and contents of all files below `dir`.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Iterations of the rows of `result.json`.
fn rows(logdir: &Path) -> Vec<u64> {
    let text = fs::read_to_string(logdir.join("result.json")).unwrap();
    let of =
        |line: &str| serde_json::from_str::<Metrics>(line).unwrap()["training_iteration"].as_u64().unwrap();
    text.lines().map(of).collect()
}

#[test]
fn a_run_in_the_directory_of_another_is_refused_and_leaves_every_file_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let mut first = begun(home.path(), Resume::Never).unwrap();
    first.train().unwrap();
    let checkpoint = first.save().unwrap();
    drop(first);
    let before = contents(home.path());
    let refused = begun(home.path(), Resume::Never).unwrap_err().to_string();
    for part in ["`logdir` is", "holds a run already", "checkpoint_000001", "Resume::IfThere"] {
        assert!(refused.contains(part), "{refused}");
    }
    // Whoever wants to restore and forgets it neither trains nor saves there.
    let mut forgotten = begun(home.path(), Resume::ByCaller).unwrap();
    assert!(matches!(forgotten.train().unwrap_err(), Error::Config { .. }));
    assert!(matches!(forgotten.save().unwrap_err(), Error::Config { .. }));
    assert_eq!(forgotten.calls.lock().unwrap().iter().filter(|call| *call == "step").count(), 0);
    drop(forgotten);
    assert_eq!(contents(home.path()), before);
    let mut second = begun(home.path(), Resume::ByCaller).unwrap();
    second.restore(&checkpoint).unwrap();
    second.train().unwrap();
    second.save().unwrap();
    assert_eq!(rows(home.path()), [1, 2]);
}

#[test]
fn results_without_a_checkpoint_are_a_run_too() {
    let home = tempfile::tempdir().unwrap();
    begun(home.path(), Resume::Never).unwrap().train().unwrap();
    let refused = begun(home.path(), Resume::Never).unwrap_err().to_string();
    assert!(refused.contains("with results in result.json"), "{refused}");
}

#[test]
fn checkpoints_of_a_run_without_loggers_are_a_run_too() {
    let home = tempfile::tempdir().unwrap();
    let start = || {
        let loggers = LoggerChoice::None;
        let options = RunOptions { logdir: Some(home.path().into()), loggers, ..RunOptions::default() };
        Driver::with(Counter::default(), Config::new(), options)
    };
    let mut first = start().unwrap();
    first.train().unwrap();
    first.save().unwrap();
    assert!(start().unwrap_err().to_string().contains("checkpoint_000001"));
}

#[test]
fn of_two_runs_that_begin_at_the_same_time_in_one_directory_the_later_is_refused() {
    for resume in [Resume::Never, Resume::IfThere] {
        let home = tempfile::tempdir().unwrap();
        let mut first = begun(home.path(), resume).unwrap();
        let mut second = begun(home.path(), resume).unwrap();
        first.train().unwrap();
        assert!(second.train().unwrap_err().to_string().contains("holds a run already"));
        first.train().unwrap();
        assert_eq!(rows(home.path()), [1, 2]);
    }
}

#[test]
fn a_program_that_is_started_three_times_is_one_run() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    for start in 0..3 {
        let mut driver = begun(&run, Resume::IfThere).unwrap();
        assert_eq!(driver.iteration(), 2 * start);
        for _ in 0..2 {
            driver.train().unwrap();
            driver.save().unwrap();
        }
        // Lost with the program, as after a kill.
        driver.train().unwrap();
    }
    assert_eq!(rows(&run), [1, 2, 3, 4, 5, 6, 7]);
    let straight = home.path().join("straight");
    let mut driver = begun(&straight, Resume::IfThere).unwrap();
    (0..6).for_each(|_| _ = driver.train().unwrap());
    let expected = driver.save().unwrap();
    let kept = checkpoint::latest(&run).unwrap().unwrap();
    assert_eq!(checkpoint::state_hash(&kept).unwrap(), checkpoint::state_hash(&expected).unwrap());
}

#[test]
fn a_run_that_was_killed_before_its_first_checkpoint_starts_again_from_the_beginning() {
    let home = tempfile::tempdir().unwrap();
    let mut first = begun(home.path(), Resume::IfThere).unwrap();
    (0..3).for_each(|_| _ = first.train().unwrap());
    drop(first);
    let mut second = begun(home.path(), Resume::IfThere).unwrap();
    assert_eq!(second.iteration(), 0);
    second.train().unwrap();
    assert_eq!(rows(home.path()), [1]);
}

#[test]
fn a_run_to_be_continued_needs_a_place() {
    let options = RunOptions { resume: Resume::IfThere, ..RunOptions::default() };
    let refused = Driver::with(Counter::default(), Config::new(), options).unwrap_err().to_string();
    assert!(refused.contains("it needs `logdir`"), "{refused}");
    let refused = Tuner::new(counters()).resume(Resume::IfThere).fit().unwrap_err().to_string();
    assert!(refused.contains("it needs `name`"), "{refused}");
}

#[test]
fn a_run_at_the_url_of_another_is_refused_and_continued_from_there_on_another_machine() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file://{}/bucket/run", home.path().display());
    let start = |machine: &str, resume| {
        let options = RunOptions {
            logdir: Some(home.path().join(machine)),
            remote_checkpoint_dir: Some(url.clone()),
            resume,
            ..RunOptions::default()
        };
        Driver::with(Counter::default(), Config::new(), options)
    };
    let mut first = start("first", Resume::IfThere).unwrap();
    first.train().unwrap();
    first.save().unwrap();
    first.stop().unwrap();
    let refused = start("second", Resume::Never).unwrap_err().to_string();
    assert!(refused.contains("a run lies there already") && refused.contains(&url), "{refused}");
    assert_eq!(start("second", Resume::IfThere).unwrap().iteration(), 1);
}

#[test]
fn a_sweep_is_refused_where_one_lies_and_continued_when_the_program_says_so() {
    let home = tempfile::tempdir().unwrap();
    let sweep = |iterations| {
        let mut tuner = tuner(counters(), home.path(), 1);
        tuner.run_config.stop = Some(Box::new(MaximumIterationStopper::new(iterations)));
        tuner
    };
    let first = sweep(5).resume(Resume::IfThere).fit().unwrap();
    assert!(sweep(5).fit().unwrap_err().to_string().contains("there is a sweep already"));
    let again = sweep(5).resume(Resume::IfThere).fit().unwrap();
    let restored = sweep(5).restore(first.experiment_path(), Restore::default()).unwrap();
    let ended = |grid: &ResultGrid| -> Vec<_> {
        let total = |trial: &TrialResult| trial.metrics.as_ref().map(|metrics| metrics["total"].clone());
        grid.iter().map(|trial| (trial.trial_id.clone(), total(trial))).collect()
    };
    assert_eq!(ended(&again), ended(&first));
    assert_eq!(ended(&restored), ended(&first));
}
