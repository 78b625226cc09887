//! Sweeps as a whole: every trial to its end, failures, restores.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pavlov_tune::schedulers::{
    AsyncHyperBandConfig, AsyncHyperBandScheduler, HyperBandConfig, HyperBandScheduler, PbtConfig,
    PopulationBasedTraining,
};
use pavlov_tune::search::{grid_search, uniform};
use pavlov_tune::stoppers::MaximumIterationStopper;
use pavlov_tune::{
    CheckpointConfig, Config, Error, FailFast, FailureConfig, Metrics, Objective, Restore, Result,
    ResultGrid, RunConfig, Scope, Trainable, TrainableFactory, TrialContext, TrialResult, TrialStatus,
    TuneConfig, Tuner, checkpoint, difference,
};
use serde_json::{Value, json};

use crate::counter::{Counter, object};

pub(crate) fn counters() -> TrainableFactory {
    TrainableFactory::new("counter", |_| Ok(Counter::default()))
}

/// A sweep of two grid points per sample over three CPUs, five iterations each.
pub(crate) fn tuner(trainable: TrainableFactory, home: &Path, num_samples: u64) -> Tuner {
    let mut tuner = Tuner::new(trainable).space(json!({"by": grid_search([2, 3]), "lr": uniform(0.0, 1.0)}));
    tuner.tune_config = TuneConfig {
        num_samples: Some(num_samples),
        objective: Some(Objective::maximize("total")),
        total_resources: Some([("CPU".to_string(), 3.0)].into()),
        ..TuneConfig::default()
    };
    tuner.run_config = RunConfig {
        name: Some("sweep".into()),
        storage_path: Some(home.into()),
        stop: Some(Box::new(MaximumIterationStopper::new(5))),
        ..RunConfig::default()
    };
    tuner
}

#[test]
fn a_trial_that_the_scheduler_stopped_is_told_from_one_that_finished_also_after_a_restore() {
    let home = tempfile::tempdir().unwrap();
    let sweep = || {
        let mut tuner = tuner(counters(), home.path(), 1);
        let config = AsyncHyperBandConfig {
            time_attr: "training_iteration".into(),
            grace_period: 1.0,
            reduction_factor: 2.0,
            max_t: 100.0,
            ..AsyncHyperBandConfig::default()
        };
        // The better one first, one at a time: the other one is below it at the first rung.
        tuner = tuner.space(json!({"by": grid_search([3, 2])}));
        tuner.tune_config.max_concurrent_trials = Some(1);
        tuner.tune_config.scheduler = Some(Box::new(AsyncHyperBandScheduler::new(config).unwrap()));
        tuner
    };
    let grid = sweep().fit().unwrap();
    let again = sweep().restore(grid.experiment_path(), Restore::default()).unwrap();
    for grid in [grid, again] {
        let early: Vec<bool> = grid.iter().map(|trial| trial.stopped_early).collect();
        assert_eq!(early, [false, true]);
        let table = grid.to_string();
        let words: Vec<&str> =
            table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(words, ["TERMINATED", "STOPPED"], "{table}");
    }
}

#[test]
fn a_sweep_whose_trials_all_wait_asks_its_scheduler_and_goes_on_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    let mut tuner = tuner(counters(), home.path(), 1);
    // Two trials do not fill a bracket, and for BOHB they wait at its first milestone for others, which never come.
    let config = HyperBandConfig {
        time_attr: "training_iteration".into(),
        max_t: 9.0,
        reduction_factor: 3.0,
        ..HyperBandConfig::default()
    };
    tuner.tune_config.scheduler = Some(Box::new(HyperBandScheduler::for_bohb(config).unwrap()));
    tuner.run_config.stop = Some(Box::new(MaximumIterationStopper::new(9)));
    let grid = tuner.fit().unwrap();
    assert_eq!(grid.num_terminated(), 2);
    let last = |trial: &TrialResult| trial.metrics.as_ref().unwrap()["training_iteration"].as_u64().unwrap();
    assert_eq!(grid.iter().map(last).max(), Some(9));
    let journal = std::fs::read_to_string(grid.experiment_path().join("journal.jsonl")).unwrap();
    assert!(journal.contains(r#"{"event":"idle"}"#), "{journal}");
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
    let best = grid.best().unwrap();
    assert_eq!((best.config["by"].clone(), &best.trial_id), (json!(3), &grid[1].trial_id));
    // Totals 3, 6, 9, 12, 15: their mean is 9.
    let best = grid.best_by(&Objective::minimize("total"), Scope::Avg).unwrap();
    assert_eq!(best.config["by"], 2);
    let message = grid.best_by(&Objective::maximize("totl"), Scope::Last).unwrap_err().to_string();
    assert!(message.ends_with("no trial has a number for `totl`; nearest: `total`"), "{message}");
}

#[test]
fn a_sweep_whose_metric_no_result_has_ends_at_its_first_result() {
    let home = tempfile::tempdir().unwrap();
    let mut sweep = tuner(counters(), home.path(), 1);
    sweep.tune_config.objective = Some(Objective::maximize("totl"));
    let message = sweep.fit().unwrap_err().to_string();
    let text = "has no `totl`, the metric of the sweep; nearest: `total`";
    assert!(message.contains(text), "{message}");

    let home = tempfile::tempdir().unwrap();
    let mut sweep = tuner(counters(), home.path(), 1);
    sweep.tune_config.objective = Some(Objective::maximize("evaluation/total"));
    let message = sweep.fit().unwrap_err().to_string();
    assert!(message.contains("has no `evaluation/total`, the metric of the sweep"), "{message}");
}

#[test]
fn a_row_per_trial_has_its_last_or_its_best_result_and_its_settings() {
    let home = tempfile::tempdir().unwrap();
    let grid = tuner(counters(), home.path(), 1).fit().unwrap();
    let cells = |row: &Metrics| ["training_iteration", "total", "config/by"].map(|key| row[key].clone());
    let last: Vec<_> = grid.get_dataframe(None).unwrap().iter().map(cells).collect();
    assert_eq!(last, [[json!(5), json!(10), json!(2)], [json!(5), json!(15), json!(3)]]);
    let least = grid.get_dataframe(Some(&Objective::minimize("total"))).unwrap();
    assert_eq!(cells(&least[1]), [json!(1), json!(3), json!(3)]);
    assert_eq!(least[1]["logdir"], json!(grid[1].path));
    let most = grid.get_dataframe(Some(&Objective::maximize("total"))).unwrap();
    assert_eq!(cells(&most[1]), cells(&grid.get_dataframe(None).unwrap()[1]));
    let without = grid.get_dataframe(Some(&Objective::maximize("absent"))).unwrap();
    assert_eq!((without.len(), without[0].get("total")), (2, None));
    assert_eq!(without[0]["trial_id"], json!(grid[0].trial_id));
}

#[test]
fn each_report_is_one_step_between_two_hooks() {
    #[derive(Default)]
    struct Steps(Arc<AtomicU64>, u64);
    impl pavlov_tune::Callback for Steps {
        fn on_step_begin(&mut self, _: &[pavlov_tune::Trial]) -> Result<()> {
            self.1 += 1;
            Ok(())
        }
        fn on_trial_result(
            &mut self,
            _: &[pavlov_tune::Trial],
            _: &pavlov_tune::Trial,
            _: &Metrics,
        ) -> Result<()> {
            assert_eq!(self.1, 1, "within a step");
            Ok(())
        }
        fn on_step_end(&mut self, _: &[pavlov_tune::Trial]) -> Result<()> {
            self.1 = 0;
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }
    let home = tempfile::tempdir().unwrap();
    let steps = Steps::default();
    let ended = steps.0.clone();
    let mut tuner = tuner(counters(), home.path(), 1);
    tuner.run_config.callbacks.push(Box::new(steps));
    tuner.fit().unwrap();
    // Two trials: five results, saved, stopped.
    assert!(ended.load(Ordering::SeqCst) >= 2 * 7);
}

/// Same settings and results, wall time apart.
pub(crate) fn assert_equal(disturbed: &ResultGrid, undisturbed: &ResultGrid, when: &str) {
    assert_eq!(disturbed.len(), undisturbed.len(), "{when}");
    for (left, right) in disturbed.iter().zip(undisturbed) {
        assert_eq!((&left.config, left.status), (&right.config, right.status), "{when}");
        let strip = |metrics: &Metrics| {
            let mut metrics = metrics.clone();
            metrics.shift_remove("trial_id");
            metrics
        };
        let all_left = left.history().unwrap();
        let all_right = right.history().unwrap();
        assert_eq!(all_left.len(), all_right.len(), "{when}: {}", left.trial_id);
        for (left, right) in all_left.iter().zip(&all_right) {
            assert_eq!(difference(&strip(left), &strip(right)), None, "{when}");
        }
        let last = (left.metrics.as_ref().unwrap(), right.metrics.as_ref().unwrap());
        assert_eq!(difference(&strip(last.0), &strip(last.1)), None, "{when}");
    }
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
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
        tuner.run_config.checkpoint_config.checkpoint_frequency = Some(2);
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
        let at_end = |line: &&&str| line.contains("\"saved\"") && line.contains("\"iteration\":3");
        let completed = lines[..kept].iter().filter(at_end).count();
        let restored = make(other.path()).restore(&copy, Restore::default()).unwrap();
        assert_equal(&restored, &undisturbed, &format!("after line {kept}"));
        let journal = fs::read_to_string(copy.join("journal.jsonl")).unwrap();
        let later: Vec<&str> = journal.lines().skip(kept).collect();
        let started = later.iter().filter(|line| line.contains("\"started\"")).count();
        assert_eq!(started, 2 - completed, "after line {kept}: {later:#?}");
    }
}

/// Fails at a given iteration as long as `failures` are left; panics if `panics`.
struct Fragile {
    inner: Counter,
    left: Arc<AtomicU64>,
    panics: bool,
}

impl Trainable for Fragile {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.inner.setup(config, trial)
    }
    fn step(&mut self) -> Result<Metrics> {
        let at = 4 * self.inner.by;
        if self.inner.total + self.inner.by == at
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
        {
            if self.panics {
                panic!("the simulator exploded");
            }
            return Err(Error::other("the simulator is gone"));
        }
        self.inner.step()
    }
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.inner.save_checkpoint(dir)
    }
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.inner.load_checkpoint(dir)
    }
    fn log_result(&mut self, result: &mut Metrics) -> Result<()> {
        self.inner.log_result(result)
    }
}

fn fragile(failures: u64, panics: bool) -> TrainableFactory {
    let left = Arc::new(AtomicU64::new(failures));
    TrainableFactory::new("fragile", move |_| {
        Ok(Fragile { inner: Counter::default(), left: left.clone(), panics })
    })
}

#[test]
fn a_trial_that_fails_goes_on_from_its_checkpoint_as_often_as_allowed() {
    let home = tempfile::tempdir().unwrap();
    let whole = tuner(counters(), home.path(), 1).fit().unwrap();
    for panics in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let mut tuner = tuner(fragile(2, panics), home.path(), 1);
        tuner.run_config.failure_config.max_failures = Some(2);
        tuner.run_config.checkpoint_config.checkpoint_frequency = Some(2);
        let grid = tuner.fit().unwrap();
        assert_eq!((grid.num_terminated(), grid.num_errors()), (2, 0));
        assert_equal(&grid, &whole, "after failures");
        let errors: String =
            grid.iter().filter_map(|trial| fs::read_to_string(trial.path.join("error.txt")).ok()).collect();
        let message = if panics { "panicked: the simulator exploded" } else { "the simulator is gone" };
        assert_eq!(errors.matches(message).count(), 2, "{errors}");
    }
}

#[test]
fn a_restored_sweep_deletes_the_checkpoints_that_the_one_before_had_yet_to_delete() {
    let home = tempfile::tempdir().unwrap();
    let make = |num_to_keep| {
        let mut tuner = tuner(counters(), home.path(), 1);
        tuner.run_config.checkpoint_config.checkpoint_frequency = Some(1);
        tuner.run_config.checkpoint_config.num_to_keep = num_to_keep;
        tuner
    };
    // As if it had been killed between every save and what follows it.
    let grid = make(None).fit().unwrap();
    let saved = |trial: &TrialResult| trial.checkpoints.iter().map(|saved| saved.0).collect::<Vec<u64>>();
    assert_eq!(saved(&grid[0]), [1, 2, 3, 4, 5]);
    let restored = make(Some(2)).restore(grid.experiment_path(), Restore::default()).unwrap();
    for trial in &restored {
        assert_eq!(saved(trial), [4, 5]);
        assert_eq!(checkpoint::list(&trial.path).unwrap().len(), 2);
    }
}

#[test]
fn a_trial_that_fails_too_often_is_given_up_alone_and_can_be_taken_up_again() {
    let home = tempfile::tempdir().unwrap();
    let mut first = tuner(fragile(1, false), home.path(), 1);
    first.tune_config.max_concurrent_trials = Some(1);
    first.run_config.checkpoint_config.checkpoint_frequency = Some(1);
    let grid = first.fit().unwrap();
    assert_eq!((grid.num_terminated(), grid.num_errors()), (1, 1));
    assert_eq!(grid[0].status, TrialStatus::Error);
    assert_eq!(grid.errors().next(), Some((&*grid[0].trial_id, "the simulator is gone")));
    let dir = grid.experiment_path().to_path_buf();

    let left = tuner(fragile(0, false), home.path(), 1).restore(&dir, Restore::default()).unwrap();
    assert_eq!(left.num_errors(), 1);
    let resume = Restore { resume_errored: true, ..Restore::default() };
    let healed = tuner(fragile(0, false), home.path(), 1).restore(&dir, resume).unwrap();
    assert_eq!((healed.num_terminated(), healed.num_errors()), (2, 0));
    let since: Vec<Value> = healed[0]
        .history()
        .unwrap()
        .iter()
        .map(|result| json!([result["training_iteration"], result["iterations_since_restore"]]))
        .collect();
    assert_eq!(json!(since), json!([[1, 1], [2, 2], [3, 3], [4, 1], [5, 2]]));
}

#[test]
fn fail_fast_leaves_the_others_to_a_restore_or_is_the_error_of_fit() {
    let home = tempfile::tempdir().unwrap();
    let sweep = |name: &str, fail_fast| {
        let mut tuner = tuner(fragile(1, false), home.path(), 3);
        tuner.tune_config.max_concurrent_trials = Some(1);
        tuner.run_config.name = Some(name.into());
        tuner.run_config.failure_config = FailureConfig { fail_fast, max_failures: Some(0) };
        tuner
    };
    let grid = sweep("stop", FailFast::Stop).fit().unwrap();
    assert!(grid.interrupted());
    assert_eq!((grid.num_errors(), grid.num_terminated()), (1, 0));
    assert!(grid.iter().skip(1).all(|trial| trial.metrics.is_none()));
    // What had not run runs now; what failed needs to be asked for.
    let mut again = sweep("stop", FailFast::Stop);
    again.trainable = fragile(0, false);
    let restored = again.restore(grid.experiment_path(), Restore::default()).unwrap();
    assert_eq!((restored.num_errors(), restored.num_terminated()), (1, 5));
    for (written, meant) in [
        ("true", FailFast::Stop),
        ("false", FailFast::Never),
        ("\"raise\"", FailFast::Raise),
        ("\"stop\"", FailFast::Stop),
    ] {
        assert_eq!(serde_json::from_str::<FailFast>(written).unwrap(), meant);
    }
    let rule = serde_json::from_str::<FailFast>("\"halt\"").unwrap_err().to_string();
    assert!(rule.starts_with("it must be \"never\", \"stop\", \"raise\", true or false"), "{rule}");
    let message = sweep("raise", FailFast::Raise).fit().unwrap_err().to_string();
    assert!(message.ends_with("_00000 failed: the simulator is gone"), "{message}");
    let mut both = sweep("both", FailFast::Stop);
    both.run_config.failure_config.max_failures = Some(1);
    let message = both.fit().unwrap_err().to_string();
    assert_eq!(message, "`max_failures` is 1, but it must be 0 with `fail_fast`, which allows no failure");
}

#[test]
fn what_a_restore_cannot_take_up_is_told_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let dir = tuner(counters(), home.path(), 1).fit().unwrap().experiment_path().to_path_buf();
    let restore = |tuner: Tuner| tuner.restore(&dir, Restore::default()).unwrap_err().to_string();

    let mut edited = tuner(counters(), home.path(), 1);
    edited.param_space = json!({"by": grid_search([2, 4]), "lr": uniform(0.0, 1.0)}).into();
    let message = restore(edited);
    assert!(message.contains("_00001 was drawn with `by` = 3, but now it is 4; restore with"), "{message}");

    let mut reseeded = tuner(counters(), home.path(), 1);
    reseeded.tune_config.seed = 9;
    let message = restore(reseeded);
    assert!(message.contains("_00000 was drawn with `lr` = "), "{message}");

    let mut other = tuner(counters(), home.path(), 1);
    other.tune_config.objective = Some(Objective::maximize("lr"));
    let message = restore(other);
    assert!(message.ends_with("its metric is total, but it is to be restored with lr"), "{message}");

    let message = tuner(counters(), home.path(), 1).fit().unwrap_err().to_string();
    assert!(
        message.ends_with("there is a sweep already; restore it, or choose another name or storage path")
    );
    let more = tuner(counters(), home.path(), 2).restore(&dir, Restore::default()).unwrap();
    assert_eq!(more.len(), 4);
}

#[test]
fn a_trial_that_can_never_run_is_an_error_at_once() {
    let home = tempfile::tempdir().unwrap();
    let needs = counters().with_resources(pavlov_tune::Resources::cpus_gpus(4.0, 0.0).unwrap());
    let message = tuner(needs, home.path(), 1).fit().unwrap_err().to_string();
    assert!(message.contains(r#"[{"CPU": 4.0}]"#), "{message}");
    assert!(message.ends_with(r#"_00000 can never run: the sweep has {"CPU": 3.0} altogether"#), "{message}");
}

#[test]
fn the_best_checkpoints_and_the_newest_stay_and_a_byte_budget_holds() {
    let home = tempfile::tempdir().unwrap();
    let sweep = |name: &str, config| {
        let mut tuner = tuner(counters(), home.path(), 1);
        tuner.run_config.name = Some(name.into());
        tuner.run_config.checkpoint_config = CheckpointConfig { checkpoint_frequency: Some(1), ..config };
        let grid = tuner.fit().unwrap();
        let iterations = grid[0].checkpoints.iter().map(|(iteration, _)| *iteration).collect::<Vec<_>>();
        let on_disk = pavlov_tune::checkpoint::list(&grid[0].path).unwrap();
        assert_eq!(on_disk.iter().map(|(iteration, _)| *iteration).collect::<Vec<_>>(), iterations);
        iterations
    };
    let newest = CheckpointConfig { num_to_keep: Some(2), ..CheckpointConfig::default() };
    assert_eq!(sweep("newest", newest.clone()), [4, 5]);
    let lowest = CheckpointConfig { score: Some(Objective::minimize("total")), ..newest };
    assert_eq!(sweep("lowest", lowest), [1, 2, 5]);
    assert_eq!(sweep("bytes", CheckpointConfig { max_bytes: Some(1), ..CheckpointConfig::default() }), [5]);
}

#[test]
fn reused_trainables_are_set_up_once_and_give_the_same_results() {
    let home = tempfile::tempdir().unwrap();
    let whole = tuner(counters(), home.path(), 2).fit().unwrap();
    let made = Arc::new(AtomicU64::new(0));
    let other = tempfile::tempdir().unwrap();
    let count = made.clone();
    let needs = pavlov_tune::Resources::cpus_gpus(1.0, 0.0).unwrap();
    let counted = TrainableFactory::new("counter", move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Counter::default())
    });
    let mut tuner = tuner(counted.with_resources(needs), other.path(), 2);
    tuner.tune_config.reuse_actors = true;
    tuner.tune_config.max_concurrent_trials = Some(1);
    let grid = tuner.fit().unwrap();
    assert_equal(&grid, &whole, "reused");
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[test]
fn an_interrupted_sweep_saves_its_trials_and_goes_on_from_there() {
    let home = tempfile::tempdir().unwrap();
    let whole = tuner(counters(), home.path(), 2).fit().unwrap();
    let other = tempfile::tempdir().unwrap();
    let mut interrupted = tuner(counters(), other.path(), 2);
    struct After(u64, Arc<std::sync::atomic::AtomicBool>);
    impl pavlov_tune::Callback for After {
        fn on_trial_result(
            &mut self,
            _: &[pavlov_tune::Trial],
            _: &pavlov_tune::Trial,
            _: &Metrics,
        ) -> Result<()> {
            self.0 = self.0.saturating_sub(1);
            self.1.fetch_or(self.0 == 0, Ordering::SeqCst);
            Ok(())
        }
    }
    let flag = interrupted.run_config.interrupt.clone();
    interrupted.run_config.callbacks.push(Box::new(After(4, flag)));
    let part = interrupted.fit().unwrap();
    assert!(part.interrupted());
    assert!(part.num_terminated() < 4);
    let dir = part.experiment_path();
    let saved = |trial: &pavlov_tune::TrialResult| {
        let iteration = trial.metrics.as_ref().map(|metrics| metrics["training_iteration"].as_u64().unwrap());
        iteration == trial.checkpoints.last().map(|(iteration, _)| *iteration)
    };
    assert!(part.iter().all(saved), "{part}");
    let rest = tuner(counters(), other.path(), 2).restore(dir, Restore::default()).unwrap();
    assert_equal(&rest, &whole, "after an interrupt");
}

/// The sweep as four trials that take over each other's states every two iterations.
pub(crate) fn population(mut tuner: Tuner) -> Tuner {
    let config = PbtConfig {
        time_attr: "training_iteration".into(),
        perturbation_interval: 2.0,
        hyperparam_mutations: object(json!({"by": [1, 2, 3, 4, 5, 6, 7, 8]})),
        quantile_fraction: 0.5,
        synch: true,
        seed: 3,
        ..PbtConfig::default()
    };
    tuner.param_space = json!({"by": grid_search([1, 3, 5, 7])}).into();
    tuner.tune_config.scheduler = Some(Box::new(PopulationBasedTraining::new(config).unwrap()));
    tuner.tune_config.max_concurrent_trials = Some(1);
    tuner
}

#[test]
fn population_based_training_restored_after_any_line_of_its_journal_ends_as_if_undisturbed() {
    let make = |home: &Path| population(tuner(counters(), home, 1));
    let home = tempfile::tempdir().unwrap();
    let undisturbed = make(home.path()).fit().unwrap();
    let dir = undisturbed.experiment_path();
    let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let adopted = lines.iter().filter(|line| line.contains("\"adopted\"")).count();
    assert!(adopted >= 2, "{adopted}");
    assert_eq!(fs::read_to_string(dir.join("pbt_global.txt")).unwrap().lines().count(), adopted);
    for kept in (1..=lines.len()).step_by(19) {
        let other = tempfile::tempdir().unwrap();
        let copy = other.path().join("sweep");
        copy_dir(dir, &copy);
        fs::write(copy.join("journal.jsonl"), lines[..kept].concat()).unwrap();
        let restored = make(other.path()).restore(&copy, Restore::default()).unwrap();
        assert_equal(&restored, &undisturbed, &format!("after line {kept}"));
    }
}
