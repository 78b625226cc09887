//! Functions as trainables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pavlov_tune::ray1::track;
use pavlov_tune::session::{self, Checkpoint};
use pavlov_tune::{Config, Restore, Result, RunConfig, TrainableFactory, Tuner};
use serde_json::{Value, json};

fn tuner(trainable: TrainableFactory, home: &Path) -> Tuner {
    let mut tuner = Tuner::new(trainable).space(json!({"n": 3}));
    tuner.run_config =
        RunConfig { name: Some("f".into()), storage_path: Some(home.into()), ..RunConfig::default() };
    tuner
}

/// `[iteration, key]` of each result of the only trial.
fn seen(tuner: Tuner, key: &str) -> Vec<Value> {
    let grid = tuner.fit().unwrap();
    assert_eq!(grid.num_errors(), 0, "{:?}", grid.errors().collect::<Vec<_>>());
    grid[0].history().unwrap().iter().map(|r| json!([r["training_iteration"], r[key]])).collect()
}

#[test]
fn reports_are_results_and_what_the_function_returns_is_the_last_one() {
    let home = tempfile::tempdir().unwrap();
    let square = |config: &Config| {
        for x in 1..=config["n"].as_u64().unwrap() {
            session::report(json!({"y": x * x}), None)?;
        }
        Ok(json!({"y": -1}))
    };
    let results = seen(tuner(TrainableFactory::function("square", square), home.path()), "y");
    assert_eq!(json!(results), json!([[1, 1], [2, 4], [3, 9], [4, -1]]));
}

#[test]
fn counts_and_stop_values_are_numbers_of_any_type() {
    let run = |tuner: Tuner| {
        let home = tempfile::tempdir().unwrap();
        let mut tuner = tuner.storage_path(home.path());
        tuner.run_config.name = Some("f".into());
        let grid = tuner.fit().unwrap();
        grid.iter().map(|trial| trial.history().unwrap().len()).collect::<Vec<_>>()
    };
    let new = || {
        Tuner::new(TrainableFactory::function("count", |_| -> Result<()> {
            for x in 1..=5 {
                session::report(json!({"x": x}), None)?;
            }
            Ok(())
        }))
    };
    assert_eq!(run(new().samples(2_usize).stop("x", 3_usize)), [3, 3]);
    assert_eq!(run(new().samples(1_u64).stop("x", 2_u64)), [2]);
    assert_eq!(run(new().samples(1).stop("x", 4)), [4]);
    assert_eq!(run(new().stop("x", 2.5)), [3]);
    let error = new().samples(-1).fit().unwrap_err().to_string();
    assert!(error.contains("`num_samples` is 0"), "{error}");
}

#[test]
fn a_returned_number_is_the_metric_without_a_name() {
    let home = tempfile::tempdir().unwrap();
    let results = seen(tuner(TrainableFactory::function("five", |_| Ok(5.0)), home.path()), "_metric");
    assert_eq!(json!(results), json!([[1, 5.0]]));
}

#[test]
fn the_function_is_never_more_than_one_report_ahead_and_ends_where_its_trial_is_stopped() {
    let home = tempfile::tempdir().unwrap();
    let reported = Arc::new(AtomicU64::new(0));
    let count = reported.clone();
    let endless = move |_: &Config| -> Result<()> {
        loop {
            let x = count.fetch_add(1, Ordering::SeqCst) + 1;
            session::report(json!({"x": x}), None)?;
        }
    };
    let mut tuner = tuner(TrainableFactory::function("endless", endless), home.path());
    tuner.run_config.stop = Some(Box::new(pavlov_tune::stoppers::MaximumIterationStopper::new(4)));
    assert_eq!(seen(tuner, "x").len(), 4);
    assert_eq!(reported.load(Ordering::SeqCst), 4);
}

#[test]
fn a_function_that_fails_goes_on_from_the_checkpoint_it_reported() {
    let home = tempfile::tempdir().unwrap();
    let starts = Arc::new(AtomicU64::new(0));
    let count = starts.clone();
    let function = move |_: &Config| -> Result<()> {
        count.fetch_add(1, Ordering::SeqCst);
        let state = session::get_checkpoint().map(|checkpoint| checkpoint.to_dict()).transpose()?;
        let start = state.map_or(0, |state| state["i"].as_u64().unwrap());
        for i in start + 1..=5 {
            assert!(i != 4 || start > 0, "out of luck");
            let checkpoint = (i == 2).then(|| Checkpoint::from_dict(json!({"i": i})));
            session::report(json!({"i": i}), checkpoint)?;
        }
        Ok(())
    };
    let mut tuner = tuner(TrainableFactory::function("lucky", function), home.path());
    tuner.run_config.failure_config.max_failures = Some(1);
    assert_eq!(json!(seen(tuner, "i")), json!([[1, 1], [2, 2], [3, 3], [4, 4], [5, 5]]));
    assert_eq!(starts.load(Ordering::SeqCst), 2);
}

#[test]
fn a_directory_reported_as_checkpoint_comes_back_with_its_files() {
    let home = tempfile::tempdir().unwrap();
    let function = |_: &Config| -> Result<()> {
        let files = tempfile::tempdir().unwrap();
        match session::get_checkpoint() {
            None => {
                std::fs::create_dir(files.path().join("net")).unwrap();
                std::fs::write(files.path().join("net/weights"), "abc").unwrap();
                session::report(json!({"found": ""}), Some(Checkpoint::from_directory(files.path())))?;
                panic!("killed");
            }
            Some(checkpoint) => {
                let path = checkpoint.as_directory().unwrap().join("net/weights");
                session::report(json!({"found": std::fs::read_to_string(path).unwrap()}), None)
            }
        }
    };
    let mut tuner = tuner(TrainableFactory::function("files", function), home.path());
    tuner.run_config.failure_config.max_failures = Some(1);
    assert_eq!(json!(seen(tuner, "found")), json!([[1, ""], [2, "abc"]]));
}

#[test]
fn errors_and_panics_of_a_function_are_its_trials_and_silence_is_one() {
    for (function, message) in [
        (
            TrainableFactory::function("e", |_| -> Result<()> { Err(pavlov_tune::Error::other("no data")) }),
            "no data",
        ),
        (
            TrainableFactory::function("p", |_| -> Result<()> { panic!("bad luck") }),
            "the function panicked: bad luck",
        ),
        (
            TrainableFactory::function("s", |_| Ok(())),
            "the function ran to its end without reporting anything",
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let grid = tuner(function, home.path()).fit().unwrap();
        assert_eq!(grid.errors().map(|(_, message)| message).collect::<Vec<_>>(), [message]);
    }
}

#[test]
fn checkpoints_by_count_and_at_the_end_are_refused_for_functions() {
    let home = tempfile::tempdir().unwrap();
    let message = |change: fn(&mut pavlov_tune::CheckpointConfig)| {
        let mut tuner = tuner(TrainableFactory::function("f", |_| Ok(1.0)), home.path());
        change(&mut tuner.run_config.checkpoint_config);
        tuner.fit().unwrap_err().to_string()
    };
    assert_eq!(
        message(|config| config.checkpoint_frequency = Some(2)),
        "`checkpoint_frequency` is 2, but a function or training loop saves when it reports a checkpoint: leave it out"
    );
    assert!(
        message(|config| config.checkpoint_at_end = Some(true)).starts_with("`checkpoint_at_end` is true")
    );
}

#[test]
fn a_function_knows_its_trial_by_the_session_the_old_names_and_the_reporter() {
    let home = tempfile::tempdir().unwrap();
    let function = |_: &Config, reporter: &track::StatusReporter| -> Result<()> {
        let id = session::get_trial_id().unwrap();
        assert_eq!((&*id, &id), (reporter.trial_id(), &track::trial_id()?));
        assert_eq!(
            (reporter.trial_name(), session::get_trial_name()),
            (&*format!("r_{id}"), Some(track::trial_name()?))
        );
        assert_eq!(
            (Some(track::trial_dir()?), reporter.logdir()),
            (session::get_trial_dir(), &*track::trial_dir()?)
        );
        assert_eq!(session::get_trial_resources().unwrap().total("CPU"), 1.0);
        track::log(json!({"x": 1}))?;
        reporter.report(json!({"x": 2, "done": true}))?;
        reporter.report(json!({"x": 3}))
    };
    let results = seen(tuner(TrainableFactory::reporting_function("r", function), home.path()), "x");
    assert_eq!(json!(results), json!([[1, 1], [2, 2]]));
    assert!(track::log(json!({"x": 1})).is_err());
    session::report(json!({"x": 1}), None).unwrap();
    assert!(session::report("text", None).unwrap_err().to_string().contains("one number"));
}

#[test]
fn a_finished_function_is_not_run_again_by_a_restore() {
    let home = tempfile::tempdir().unwrap();
    let starts = Arc::new(AtomicU64::new(0));
    let make = || {
        let count = starts.clone();
        TrainableFactory::function("once", move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(1.0)
        })
    };
    let dir = tuner(make(), home.path()).fit().unwrap().experiment_path().to_path_buf();
    let grid = tuner(make(), home.path()).restore(dir, Restore::default()).unwrap();
    assert_eq!((grid.num_terminated(), starts.load(Ordering::SeqCst)), (1, 1));
}
