//! Sweeps that were cut off at an unlucky moment, and what a restore makes of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pavlov_tune::stoppers::Stopper;
use pavlov_tune::{
    Config, Error, FailFast, FailureConfig, Metrics, Restore, Result, ResultGrid, Trainable,
    TrainableFactory, TrialContext, TrialStatus, Tuner, checkpoint,
};
use serde_json::Value;

use crate::counter::Counter;
use crate::sweeps::{assert_equal, copy_dir, counters, population, tuner};

/// Stops the whole sweep after so many results.
struct AfterResults {
    seen: u64,
    limit: u64,
}

impl Stopper for AfterResults {
    fn should_stop(&mut self, _: &str, _: &Metrics) -> Result<bool> {
        self.seen += 1;
        Ok(false)
    }

    fn stop_all(&self, _: Duration) -> bool {
        self.seen >= self.limit
    }
}

fn one_at_a_time(trainable: TrainableFactory, home: &Path) -> Tuner {
    let mut tuner = tuner(trainable, home, 2);
    tuner.tune_config.max_concurrent_trials = Some(1);
    tuner
}

/// Status and last iteration of each trial.
fn ends(grid: &ResultGrid) -> Vec<(TrialStatus, Option<u64>)> {
    let iteration = |metrics: &Metrics| metrics["training_iteration"].as_u64();
    grid.iter().map(|trial| (trial.status, trial.metrics.as_ref().and_then(iteration))).collect()
}

/// Restores copies of the sweep in `dir`, each cut off after one more line of the journal from the one about
/// `stop_all` on.
fn restore_after_each_line_of_the_end(whole: &ResultGrid, make: impl Fn(&Path) -> Tuner) {
    let dir = whole.experiment_path();
    let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let begin = lines.iter().position(|line| line.contains("\"stop_all\"")).unwrap();
    assert!(lines.len() > begin + 3, "several trials were stopped: {journal}");
    for kept in begin + 1..=lines.len() {
        let other = tempfile::tempdir().unwrap();
        let copy = other.path().join("sweep");
        copy_dir(dir, &copy);
        // Earlier versions went on like this until they were killed.
        let idle = if kept == begin + 1 { 1000 } else { 0 };
        let cut = lines[..kept].concat() + &"{\"event\":\"idle\"}\n".repeat(idle);
        fs::write(copy.join("journal.jsonl"), cut).unwrap();
        let restored = make(other.path()).restore(&copy, Restore::default()).unwrap();
        assert_eq!(ends(&restored), ends(whole), "after line {kept}");
        let journal = fs::read_to_string(copy.join("journal.jsonl")).unwrap();
        assert_eq!(journal.matches("\"idle\"").count(), idle, "after line {kept}: {journal}");
    }
}

#[test]
fn a_sweep_killed_while_a_stop_condition_stops_its_trials_is_restored_and_ends() {
    let make = |home: &Path| {
        let mut tuner = one_at_a_time(counters(), home);
        tuner.run_config.stop = Some(Box::new(AfterResults { seen: 0, limit: 3 }));
        tuner
    };
    let home = tempfile::tempdir().unwrap();
    let whole = make(home.path()).fit().unwrap();
    assert_eq!(whole.num_terminated(), 4);
    restore_after_each_line_of_the_end(&whole, make);
}

#[test]
fn a_sweep_killed_while_the_spent_time_budget_stops_its_trials_is_restored_and_ends() {
    let make = |home: &Path| {
        let mut tuner = one_at_a_time(counters(), home);
        tuner.tune_config.time_budget = Some(Duration::from_nanos(1));
        tuner
    };
    // With so small a budget from the beginning, no trial would be drawn.
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("sweep");
    let mut interrupted = one_at_a_time(counters(), home.path());
    let interrupt = interrupted.run_config.interrupt.clone();
    interrupted.run_config.callbacks.push(Box::new(InterruptAtFirstResult(interrupt)));
    assert!(interrupted.fit().unwrap().interrupted());
    let whole = make(home.path()).restore(&dir, Restore::default()).unwrap();
    assert_eq!(whole.num_terminated(), 4);
    restore_after_each_line_of_the_end(&whole, make);
}

struct InterruptAtFirstResult(Arc<std::sync::atomic::AtomicBool>);

impl pavlov_tune::Callback for InterruptAtFirstResult {
    fn on_trial_result(
        &mut self,
        _: &[pavlov_tune::Trial],
        _: &pavlov_tune::Trial,
        _: &Metrics,
    ) -> Result<()> {
        self.0.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// A [`Counter`] that cannot save its fifth iteration as long as `failures` are left, or cannot step as long as
/// `step_failures` are.
struct Unsaved {
    inner: Counter,
    failures: Arc<AtomicU64>,
    step_failures: Arc<AtomicU64>,
}

fn one_less(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Trainable for Unsaved {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.inner.setup(config, trial)
    }
    fn step(&mut self) -> Result<Metrics> {
        if one_less(&self.step_failures) {
            Err(Error::other("the simulator is gone"))
        } else {
            self.inner.step()
        }
    }
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        if self.inner.total == 5 * self.inner.by && one_less(&self.failures) {
            Err(Error::other("the disk is full"))
        } else {
            self.inner.save_checkpoint(dir)
        }
    }
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.inner.load_checkpoint(dir)
    }
}

fn unsaved(failures: u64, step_failures: u64) -> TrainableFactory {
    let [failures, step_failures] = [failures, step_failures].map(|left| Arc::new(AtomicU64::new(left)));
    TrainableFactory::new("unsaved", move |_| {
        let failures = failures.clone();
        let step_failures = step_failures.clone();
        Ok(Unsaved { inner: Counter::default(), failures, step_failures })
    })
}

const RESUME_ERRORED: Restore =
    Restore { resume_unfinished: true, resume_errored: true, restart_errored: false };

#[test]
fn a_trial_whose_last_save_alone_failed_is_saved_by_resume_errored_and_not_trained_past_its_stop() {
    let home = tempfile::tempdir().unwrap();
    let first = one_at_a_time(unsaved(1, 0), home.path()).fit().unwrap();
    assert_eq!((first[0].status, first.num_errors()), (TrialStatus::Error, 1));
    let dir = first.experiment_path();
    let healed = one_at_a_time(unsaved(0, 0), home.path()).restore(dir, RESUME_ERRORED).unwrap();
    assert_eq!(ends(&healed), [(TrialStatus::Terminated, Some(5)); 4]);
    let trial = &healed[0];
    assert_eq!(trial.history().unwrap().len(), 5);
    assert_eq!(trial.checkpoint.as_deref(), Some(&*trial.path.join("checkpoint_000005")));
}

#[test]
fn a_trial_that_failed_and_stopped_all_others_is_taken_up_again_by_resume_errored() {
    let home = tempfile::tempdir().unwrap();
    let make = |step_failures| {
        let mut tuner = one_at_a_time(unsaved(0, step_failures), home.path());
        tuner.run_config.failure_config = FailureConfig { fail_fast: FailFast::Stop, max_failures: Some(0) };
        tuner
    };
    let first = make(1).fit().unwrap();
    assert_eq!(ends(&first)[0], (TrialStatus::Error, None));
    assert!(first.interrupted());
    let dir = first.experiment_path().to_path_buf();
    let healed = make(0).restore(&dir, RESUME_ERRORED).unwrap();
    assert_eq!(ends(&healed), [(TrialStatus::Terminated, Some(5)); 4]);
}

#[test]
fn a_checkpoint_that_was_written_just_before_a_kill_is_deleted_where_only_some_are_kept() {
    let sweep = |home: &Path, num_to_keep| {
        let mut tuner = one_at_a_time(counters(), home);
        tuner.run_config.checkpoint_config.checkpoint_frequency = Some(2);
        tuner.run_config.checkpoint_config.num_to_keep = num_to_keep;
        tuner
    };
    let home = tempfile::tempdir().unwrap();
    let whole = sweep(home.path(), None).fit().unwrap();
    let on_disk = |grid: &ResultGrid| {
        let found = checkpoint::list(&grid[0].path).unwrap();
        found.into_iter().map(|(iteration, _)| iteration).collect::<Vec<_>>()
    };
    assert_eq!(on_disk(&whole), [2, 4, 5]);
    // The journal as it was when the driver was killed after the checkpoint at 2 and before the line about it.
    let path = whole.experiment_path().join("journal.jsonl");
    let journal = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let saved = lines.iter().position(|line| line.contains("\"saved\"")).unwrap();
    fs::write(&path, lines[..saved].concat()).unwrap();
    for (keep, left) in [(None, vec![2, 4, 5]), (Some(1), vec![5])] {
        let other = tempfile::tempdir().unwrap();
        let copy = other.path().join("sweep");
        copy_dir(whole.experiment_path(), &copy);
        let mut tuner = sweep(other.path(), keep);
        // Nothing is saved at 2 this time.
        tuner.run_config.checkpoint_config.checkpoint_frequency = None;
        let restored = tuner.restore(&copy, Restore::default()).unwrap();
        assert_eq!(ends(&restored), ends(&whole));
        assert_eq!(on_disk(&restored), left, "{keep:?}");
    }
}

#[test]
fn a_damaged_checkpoint_is_not_in_the_way_of_another_trials_state() {
    let make = |home: &Path| population(tuner(counters(), home, 1));
    let home = tempfile::tempdir().unwrap();
    let whole = make(home.path()).fit().unwrap();
    let dir = whole.experiment_path();
    let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let adopted = lines.iter().position(|line| line.contains("\"adopted\"")).unwrap();
    let event: Value = serde_json::from_str(lines[adopted]).unwrap();
    let name = checkpoint::name(event["checkpoint"]["iteration"].as_u64().unwrap());
    let other = tempfile::tempdir().unwrap();
    let copy = other.path().join("sweep");
    copy_dir(dir, &copy);
    fs::write(copy.join("journal.jsonl"), lines[..adopted].concat()).unwrap();
    let trial = copy.join(event["trial_id"].as_str().unwrap());
    fs::create_dir_all(trial.join(&name)).unwrap();
    fs::write(trial.join(&name).join("manifest.json"), "").unwrap();
    let restored = make(other.path()).restore(&copy, Restore::default()).unwrap();
    assert_equal(&restored, &whole, "with a damaged checkpoint in the way");
    assert!(trial.join(name + ".damaged").exists());
}

/// A [`Counter`] whose fifth step leaves what a process that is killed while it saves does, and ends or fails.
struct KilledWhileSaving {
    inner: Counter,
    dir: PathBuf,
    fails: bool,
}

/// Makes what a process leaves that is killed while it saves.
fn leave_unfinished(trial: &Path) -> PathBuf {
    let left = trial.join(".pavlov-unfinished-abc");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("state"), "half").unwrap();
    left
}

impl Trainable for KilledWhileSaving {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.dir = trial.logdir.clone();
        self.inner.setup(config, trial)
    }
    fn step(&mut self) -> Result<Metrics> {
        if self.inner.total == 4 * self.inner.by {
            leave_unfinished(&self.dir);
            self.inner.fail_next = self.fails;
        }
        self.inner.step()
    }
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.inner.save_checkpoint(dir)
    }
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.inner.load_checkpoint(dir)
    }
}

#[test]
fn what_a_killed_process_left_of_a_checkpoint_is_removed_from_trials_that_have_ended() {
    for fails in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let make = || {
            let killed = TrainableFactory::new("killed", move |_| {
                Ok(KilledWhileSaving { inner: Counter::default(), dir: PathBuf::new(), fails })
            });
            let mut tuner = one_at_a_time(killed, home.path());
            tuner.run_config.checkpoint_config.checkpoint_at_end = Some(false);
            tuner
        };
        let grid = make().fit().unwrap();
        let ended = if fails { TrialStatus::Error } else { TrialStatus::Terminated };
        let left = grid[0].path.join(".pavlov-unfinished-abc");
        assert_eq!(grid[0].status, ended);
        assert!(!left.exists(), "fails: {fails}");
        // The sweep's own process is killed while it removes a checkpoint of a trial that has ended.
        assert_eq!(leave_unfinished(&grid[0].path), left);
        make().restore(grid.experiment_path(), Restore::default()).unwrap();
        assert!(!left.exists(), "fails: {fails}");
    }
}
