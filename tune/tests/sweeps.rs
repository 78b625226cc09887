//! Sweeps as a whole: every trial to its end, failures, restores.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pavlov_tune::search::{grid_search, uniform};
use pavlov_tune::stoppers::MaximumIterationStopper;
use pavlov_tune::{
    CheckpointConfig, Config, Error, FailFast, FailureConfig, Metrics, Mode, Restore, Result, ResultGrid, RunConfig, Scope,
    Trainable, TrainableFactory, TrialContext, TrialStatus, TuneConfig, Tuner, difference,
};
use serde_json::{Value, json};

use crate::counter::{Counter, object};

fn counters() -> TrainableFactory {
    TrainableFactory::new("counter", |_| Ok(Counter::default()))
}

/// A sweep of two grid points per sample over three CPUs, five iterations each.
pub(crate) fn tuner(trainable: TrainableFactory, home: &Path, num_samples: i64) -> Tuner {
    let mut tuner = Tuner::new(trainable, json!({"by": grid_search([2, 3]), "lr": uniform(0.0, 1.0)}));
    tuner.tune_config = TuneConfig {
        num_samples,
        metric: Some("total".into()),
        mode: Some(Mode::Max),
        total_resources: Some([("CPU".to_string(), 3.0)].into()),
        ..TuneConfig::default()
    };
    tuner.run_config = RunConfig {
        name: Some("sweep".into()),
        storage_path: Some(home.into()),
        stop: Some(Box::new(MaximumIterationStopper::new(5))),
        verbose: 0,
        ..RunConfig::default()
    };
    tuner
}

#[test]
fn every_trial_runs_to_its_stop_condition_and_is_saved_there() {
    let home = tempfile::tempdir().unwrap();
    let grid = tuner(counters(), home.path(), 3).fit().unwrap();
    assert_eq!((grid.len(), grid.num_terminated(), grid.num_errors()), (6, 6, 0));
    for (number, result) in grid.iter().enumerate() {
        let by = 2 + number % 2;
        let metrics = result.metrics.as_ref().unwrap();
        assert_eq!((&metrics["total"], &metrics["training_iteration"]), (&json!(5 * by), &json!(5)));
        assert_eq!(result.history().unwrap().len(), 5);
        assert_eq!(result.checkpoint.as_deref(), Some(&*result.path.join("checkpoint_000005")));
    }
    let best = grid.get_best_result(None, None, Scope::Last).unwrap();
    assert_eq!((best.config["by"].clone(), &best.trial_id), (json!(3), &grid[1].trial_id));
    // Totals 3, 6, 9, 12, 15: their mean is 9.
    let best = grid.get_best_result(Some("total"), Some(Mode::Min), Scope::Avg).unwrap();
    assert_eq!(best.config["by"], 2);
    let message = grid.get_best_result(Some("totl"), None, Scope::Last).unwrap_err().to_string();
    assert!(message.ends_with("no trial has a number for `totl`; nearest: `total`"), "{message}");
}

/// Same settings and results, wall time apart.
fn assert_equal(disturbed: &ResultGrid, undisturbed: &ResultGrid, when: &str) {
    assert_eq!(disturbed.len(), undisturbed.len(), "{when}");
    for (left, right) in disturbed.iter().zip(undisturbed) {
        assert_eq!((&left.config, left.status), (&right.config, right.status), "{when}");
        let strip = |metrics: &Metrics| {
            let mut metrics = metrics.clone();
            metrics.shift_remove("trial_id");
            metrics
        };
        let (all_left, all_right) = (left.history().unwrap(), right.history().unwrap());
        assert_eq!(all_left.len(), all_right.len(), "{when}: {}", left.trial_id);
        for (left, right) in all_left.iter().zip(&all_right) {
            assert_eq!(difference(&strip(left), &strip(right)), None, "{when}");
        }
        let last = (left.metrics.as_ref().unwrap(), right.metrics.as_ref().unwrap());
        assert_eq!(difference(&strip(last.0), &strip(last.1)), None, "{when}");
    }
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy_dir(&entry, &target);
        } else {
            fs::copy(&entry, &target).unwrap();
        }
    }
}

#[test]
fn a_sweep_restored_after_any_line_of_its_journal_ends_as_if_undisturbed() {
    let home = tempfile::tempdir().unwrap();
    let make = |home: &Path| {
        let mut tuner = tuner(counters(), home, 1);
        tuner.run_config.stop = Some(Box::new(MaximumIterationStopper::new(3)));
        tuner.run_config.checkpoint_config.checkpoint_frequency = 2;
        tuner
    };
    let undisturbed = make(home.path()).fit().unwrap();
    let dir = undisturbed.experiment_path();
    let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    // Header; per trial: drawn, started, three results, saved at 2 and 3, completed.
    assert_eq!(lines.len(), 1 + 2 * 8);
    for kept in 1..=lines.len() {
        let other = tempfile::tempdir().unwrap();
        let copy = other.path().join("sweep");
        copy_dir(dir, &copy);
        let torn = lines.get(kept).map_or("", |next| &next[..next.len() / 2]);
        fs::write(copy.join("journal.jsonl"), lines[..kept].concat() + torn).unwrap();
        let completed = lines[..kept].iter().filter(|line| line.contains("\"completed\"")).count();
        let restored = make(other.path()).restore(&copy, Restore::default()).unwrap();
        assert_equal(&restored, &undisturbed, &format!("after line {kept}"));
        let journal = fs::read_to_string(copy.join("journal.jsonl")).unwrap();
        let later: Vec<&str> = journal.lines().skip(kept).collect();
        let started = later.iter().filter(|line| line.contains("\"started\"")).count();
        assert_eq!(started, 2 - completed, "after line {kept}: {later:#?}");
    }
}
