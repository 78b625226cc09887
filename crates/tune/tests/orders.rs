//! What a sweep makes of the orders of a scheduler, and what it tells its searcher.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pavlov_tune::schedulers::{Answer, Decision, Order, TrialScheduler};
use pavlov_tune::search::{SearchSpace, Searcher, Suggestion};
use pavlov_tune::{
    Config, Error, Metrics, Objective, Resources, Restore, Result, ResultGrid, Trainable, TrainableFactory,
    Trial, TrialContext, Tuner,
};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::counter::{Calls, Counter, object};
use crate::sweeps::{counters, tuner};

/// A scheduler that answers the result of a trial, by the trial's number and its iteration, as a function says.
struct Scripted<F>(F);

impl<F: FnMut(&Trial, usize, u64) -> Answer + Send> TrialScheduler for Scripted<F> {
    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Answer> {
        let number = trials.iter().position(|other| other.trial_id == trial.trial_id).expect("one of them");
        let iteration = result["training_iteration"].as_u64().expect("a number");
        Ok(self.0(trial, number, iteration))
    }

    fn debug_string(&self) -> String {
        "scripted".into()
    }
}

/// The sweep of two counters that add 2 and 3, five iterations each, one at a time, with a scripted scheduler.
fn scripted(home: &Path, script: impl FnMut(&Trial, usize, u64) -> Answer + Send + 'static) -> Tuner {
    let mut tuner = tuner(counters(), home, 1);
    tuner.tune_config.total_resources = Some([("CPU".to_string(), 1.0)].into());
    tuner.tune_config.scheduler = Some(Box::new(Scripted(script)));
    tuner
}

/// `total` of each trial in its last result.
fn totals(grid: &ResultGrid) -> Vec<u64> {
    grid.iter().map(|trial| trial.metrics.as_ref().expect("a result")["total"].as_u64().unwrap()).collect()
}

fn exploit(trial_id: &str, source: &str, by: u64) -> Order {
    Order::Exploit {
        trial_id: trial_id.into(),
        source: source.into(),
        config: object(json!({"by": by, "lr": 0.5})),
        experiment_tag: "taken".into(),
        log: None,
    }
}

fn noop(orders: Vec<Order>) -> Answer {
    Answer { decision: Decision::Noop, orders }
}

/// A sweep whose first trial pauses after its first result; the second one gets the orders of `then`, which has its id and
/// that of the first, after its own.
fn first_pauses(home: &Path, then: impl Fn(&str, &str) -> Vec<Order> + Send + 'static) -> Tuner {
    let mut first = String::new();
    scripted(home, move |trial, number, iteration| match (number, iteration) {
        (0, 1) => {
            first.clone_from(&trial.trial_id);
            Decision::Pause.into()
        }
        (1, 1) => noop(then(&trial.trial_id, &first)),
        _ => Decision::Continue.into(),
    })
}

#[test]
fn a_trial_takes_over_the_state_with_which_another_one_was_paused() {
    let home = tempfile::tempdir().unwrap();
    let sweep =
        first_pauses(home.path(), |own, first| vec![Order::Save(first.into()), exploit(own, first, 3)]);
    // The first trial was at 2 after its first step; the second one adds 3 to that four times.
    assert_eq!(totals(&sweep.fit().unwrap()), [10, 14]);
}

#[test]
fn a_trial_keeps_its_state_and_its_settings_if_the_other_one_saved_nothing_for_it() {
    let home = tempfile::tempdir().unwrap();
    let sweep = first_pauses(home.path(), |own, first| vec![exploit(own, first, 7)]);
    let grid = sweep.fit().unwrap();
    assert_eq!(totals(&grid), [10, 15]);
    assert_eq!(grid.iter().map(|trial| trial.config["by"].clone()).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_running_trial_is_started_again_with_the_resources_that_its_scheduler_gives_it() {
    let home = tempfile::tempdir().unwrap();
    let calls = Calls::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let two = Resources::cpus_gpus(2.0, 0.0).unwrap();
    let mut sweep = scripted(home.path(), move |trial, number, iteration| {
        noted.lock().unwrap().push(trial.resources.clone());
        match (number, iteration) {
            (0, 2) => noop(vec![Order::SetResources(trial.trial_id.clone(), two.clone())]),
            _ => Decision::Continue.into(),
        }
    });
    let made = calls.clone();
    sweep.trainable =
        TrainableFactory::new("counter", move |_| Ok(Counter { calls: made.clone(), ..Counter::default() }));
    sweep.tune_config.total_resources = Some([("CPU".to_string(), 2.0)].into());
    sweep.tune_config.max_concurrent_trials = Some(1);
    sweep.param_space = json!({"by": 2}).into();
    assert_eq!(totals(&sweep.fit().unwrap()), [10]);
    let loads = calls.lock().unwrap().iter().filter(|call| *call == "load_checkpoint").count();
    assert_eq!(loads, 1);
    let cpus: Vec<Value> = seen.lock().unwrap().iter().map(|resources| json!(resources)).collect();
    let [one, two] = [1.0, 2.0].map(|cpus| json!(Resources::cpus_gpus(cpus, 0.0).unwrap()));
    assert_eq!(cpus, [one.clone(), one, two.clone(), two.clone()]);
}

#[test]
fn a_resumed_sweep_asks_again_for_the_resources_that_no_scheduler_has_changed() {
    let home = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    // The first trial gets other resources after its first result, the second one pauses after its own.
    let sweep = |interrupts: bool| {
        let seen = seen.clone();
        let flag = Arc::new(AtomicBool::new(false));
        let interrupt = flag.clone();
        let [one, two, three] = [1.0, 2.0, 3.0].map(|cpus| Resources::cpus_gpus(cpus, 0.0).unwrap());
        let mut sweep = scripted(home.path(), move |trial, number, iteration| {
            seen.lock().unwrap().push((number, iteration, trial.resources.clone()));
            interrupt.store(interrupts && number == 1, Ordering::SeqCst);
            match (number, iteration) {
                (0, 1) => noop(vec![Order::SetResources(trial.trial_id.clone(), three.clone())]),
                (1, 1) => Decision::Pause.into(),
                _ => Decision::Continue.into(),
            }
        });
        sweep.run_config.interrupt = flag;
        sweep.trainable = counters().with_resources(if interrupts { one } else { two });
        sweep.tune_config.total_resources = Some([("CPU".to_string(), 3.0)].into());
        sweep.tune_config.max_concurrent_trials = Some(2);
        sweep
    };
    let grid = sweep(true).fit().unwrap();
    assert!(grid.interrupted());
    seen.lock().unwrap().clear();
    let grid = sweep(false).restore(grid.experiment_path(), Restore::default()).unwrap();
    assert_eq!(totals(&grid), [10, 15]);
    let seen = seen.lock().unwrap();
    let last = |number| seen.iter().rfind(|(other, ..)| *other == number).expect("a result");
    let cpus = |number| (last(number).1, last(number).2.clone());
    assert_eq!(cpus(0), (4, Resources::cpus_gpus(3.0, 0.0).unwrap()), "{seen:?}");
    assert_eq!(cpus(1), (4, Resources::cpus_gpus(2.0, 0.0).unwrap()), "{seen:?}");
}

#[test]
fn a_scheduler_that_moves_trials_about_without_letting_one_train_is_told_that_the_sweep_stands_still() {
    struct Fidgety(u64);
    impl TrialScheduler for Fidgety {
        fn on_trial_result(&mut self, _: &Trial, _: &Metrics, _: &[Trial]) -> Result<Answer> {
            Ok(Decision::Continue.into())
        }

        fn choose_trial_to_run(&self, _: &[Trial], _: &dyn Fn(&Trial) -> bool) -> Option<usize> {
            None
        }

        fn on_idle(&mut self, trials: &[Trial]) -> Result<Vec<Order>> {
            self.0 += 1;
            let id = &trials[0].trial_id;
            match self.0 {
                1 => Ok(vec![exploit(id, id, 2)]),
                2 => Ok(vec![Order::Unpause(id.clone())]),
                _ => Err(Error::other("asked a third time")),
            }
        }

        fn debug_string(&self) -> String {
            "fidgety".into()
        }
    }
    let home = tempfile::tempdir().unwrap();
    let mut sweep = tuner(counters(), home.path(), 1);
    sweep.tune_config.scheduler = Some(Box::new(Fidgety(0)));
    let message = sweep.fit().unwrap_err().to_string();
    assert!(message.contains("the sweep stands still: fidgety lets none of these trials go on"), "{message}");
}

#[test]
fn a_searcher_hears_of_each_result_of_a_trial_that_goes_on_and_of_the_last_one_at_its_end() {
    struct Listening(Arc<Mutex<Vec<String>>>, bool);
    impl Searcher for Listening {
        fn set_search_properties(&mut self, _: Option<&Objective>, _: &SearchSpace) -> Result<()> {
            Ok(())
        }

        fn suggest(&mut self, _: &str) -> Result<Suggestion> {
            if std::mem::replace(&mut self.1, true) {
                return Ok(Suggestion::Finished);
            }
            Ok(Suggestion::Trial { config: object(json!({"by": 2})), drawn: Vec::new() })
        }

        fn on_trial_result(&mut self, _: &str, result: &Metrics) -> Result<()> {
            self.0.lock().unwrap().push(format!("result {}", result["total"]));
            Ok(())
        }

        fn on_trial_complete(&mut self, _: &str, result: Option<&Metrics>) -> Result<()> {
            self.0.lock().unwrap().push(format!("end {}", result.expect("it did not fail")["total"]));
            Ok(())
        }
    }
    let home = tempfile::tempdir().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let mut sweep = tuner(counters(), home.path(), 1);
    sweep.tune_config.search_alg = Some(Box::new(Listening(heard.clone(), false)));
    sweep.fit().unwrap();
    assert_eq!(*heard.lock().unwrap(), ["result 2", "result 4", "result 6", "result 8", "end 10"]);
}

/// A counter whose results have `evaluation/total` from the second one on.
#[derive(Default)]
struct Late(Counter);

impl Trainable for Late {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.0.setup(config, trial)
    }

    fn step(&mut self) -> Result<Metrics> {
        let before = self.0.total;
        let mut result = self.0.step()?;
        if before > 0 {
            result.insert("evaluation".into(), json!({"total": self.0.total}));
        }
        Ok(result)
    }

    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.0.save_checkpoint(dir)
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.0.load_checkpoint(dir)
    }
}

#[test]
fn the_metric_of_a_sweep_may_be_missing_at_first_only_where_it_is_part_of_another_key() {
    let home = tempfile::tempdir().unwrap();
    let mut sweep = tuner(TrainableFactory::new("late", |_| Ok(Late::default())), home.path(), 1);
    sweep.tune_config.objective = Some(Objective::maximize("evaluation/total"));
    assert_eq!(sweep.fit().unwrap().best().unwrap().config["by"], 3);

    let home = tempfile::tempdir().unwrap();
    let mut sweep = tuner(counters(), home.path(), 1);
    sweep.tune_config.objective = Some(Objective::maximize("totl"));
    sweep.tune_config.max_concurrent_trials = Some(1);
    sweep.fit().unwrap_err();
    let journal = fs::read_to_string(home.path().join("sweep/journal.jsonl")).unwrap();
    // The first result is the error, so that none is written.
    assert_eq!(journal.matches("\"event\":\"result\"").count(), 0, "{journal}");
}

#[test]
fn a_sweep_waits_for_the_lock_of_a_process_that_is_about_to_end() {
    let home = tempfile::tempdir().unwrap();
    let dir = tuner(counters(), home.path(), 1).fit().unwrap().experiment_path().to_path_buf();
    let other = fs::File::open(dir.join("journal.jsonl")).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let held = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        drop(other);
    });
    assert_eq!(tuner(counters(), home.path(), 1).restore(&dir, Restore::default()).unwrap().len(), 2);
    held.join().unwrap();
}
