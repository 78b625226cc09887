//! Workers that train one model together: their losses, and what happens when one fails, dies or does something else.
//!
//! Each training runs in a process of its own, because workers are this binary started once more.

use std::fs;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ndarray::Array1;
use pavlov_data::{Block, Blocks, Dataset, Datasource, IterBatches};
use pavlov_train::{
    BaseTrainer, DataParallelTrainer, ReduceOp, ScalingConfig, TrainLoop, Training, WorkerContext,
};
use pavlov_tune::schedulers::{AsyncHyperBandConfig, AsyncHyperBandScheduler};
use pavlov_tune::search::grid_search;
use pavlov_tune::session::{self, Checkpoint};
use pavlov_tune::{
    Bundle, Error, ExecutorKind, FailureConfig, Objective, Result, RunConfig, Tuner, child_main,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::child::{child_home, in_child};

/// Least squares for `y = w x + b`; worker 1 makes some mischief in the third epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Regression {
    lr: f64,
    epochs: u64,
    /// Rows of all workers together.
    batch_size: usize,
    mischief: String,
}

/// What a test asks of [`child_fit`], in the file `plan.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plan {
    num_workers: Option<usize>,
    mischief: String,
    processes: bool,
    max_failures: u64,
    cpus_per_worker: f64,
    rows: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            num_workers: Some(2),
            mischief: String::new(),
            processes: false,
            max_failures: 0,
            cpus_per_worker: 1.0,
            rows: 24,
        }
    }
}

impl TrainLoop for Regression {
    fn train_loop_per_worker(&mut self, worker: &WorkerContext) -> Result<()> {
        let home = child_home();
        let rank = worker.get_world_rank();
        let world = worker.get_world_size();
        assert_eq!((worker.get_local_rank(), worker.get_metadata()["by"].as_str()), (rank, Some("tests")));
        fs::write(home.join(format!("pid_{rank}")), std::process::id().to_string()).unwrap();
        let state = worker.get_checkpoint().map(Checkpoint::to_dict).transpose()?;
        let number = |key: &str| state.as_ref().map_or(0.0, |state| state[key].as_f64().unwrap());
        let mut w = number("w");
        let mut b = number("b");
        let options = IterBatches { batch_size: self.batch_size / world, ..IterBatches::default() };
        for epoch in number("epoch") as u64..self.epochs {
            let mut loss = 0.0;
            for (number, batch) in
                worker.get_dataset_shard("train")?.iter_batches(options.clone())?.enumerate()
            {
                let batch = batch?;
                if epoch == 2 && number == 0 && rank == 1 && self.make_mischief(&home)? {
                    return Ok(());
                }
                let x = batch.float("x")?;
                let y = batch.float("y")?;
                let n = x.len() as f64;
                let mut sums = [0.0; 3];
                for (x, y) in x.iter().zip(&y) {
                    let error = w * x + b - y;
                    sums[0] += 2.0 * error * x / n;
                    sums[1] += 2.0 * error / n;
                    sums[2] += error * error / n;
                }
                worker.collective().all_reduce_f64(&mut sums, ReduceOp::Mean)?;
                w -= self.lr * sums[0];
                b -= self.lr * sums[1];
                loss = sums[2];
            }
            if rank == 1 && epoch == 2 && self.mischief == "skip_report" {
                continue;
            }
            let checkpoint = json!({"epoch": epoch + 1, "w": w, "b": b});
            let saves = rank == 0 || self.mischief == "checkpoint";
            let reported = session::report(
                json!({"loss": loss, "w": w, "b": b, "rank": rank, "threads": std::env::var("RAYON_NUM_THREADS").ok()}),
                saves.then(|| Checkpoint::from_dict(checkpoint)),
            );
            if matches!(reported, Err(Error::TrialStopped)) {
                fs::write(home.join(format!("stopped_{}_{rank}", session::get_trial_id().unwrap())), "")
                    .unwrap();
            }
            reported?;
        }
        Ok(())
    }
}

impl Regression {
    /// Whether to return.
    fn make_mischief(&self, home: &Path) -> Result<bool> {
        let is_first = fs::File::create_new(home.join("once")).is_ok();
        match &*self.mischief {
            "kill" if is_first => kill(std::process::id()),
            "kill_trial" if is_first => kill(parent_id()),
            "panic" => panic!("no more"),
            "error" => return Err(Error::other("a bad row")),
            "abort" => std::process::abort(),
            "linger" => sleep(Duration::from_secs(60)),
            "return" => return Ok(true),
            _ => {}
        }
        Ok(false)
    }
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(status.success());
    sleep(Duration::from_secs(30));
}

fn training(home: &Path, plan: &Plan) -> Training<DataParallelTrainer<Regression>> {
    let rows = (0..plan.rows).map(|i| {
        let x = f64::from(i % 7) / 3.0 - 1.0;
        json!({"x": x, "y": 3.0 * x - 1.0 + f64::from(i % 5) / 10.0})
    });
    let regression = Regression { lr: 0.1, epochs: 6, batch_size: 12, mischief: plan.mischief.clone() };
    DataParallelTrainer::new(regression)
        .training()
        .scaling_config(ScalingConfig {
            num_workers: plan.num_workers,
            resources_per_worker: Some(Bundle::from([("CPU".into(), plan.cpus_per_worker)])),
            ..ScalingConfig::default()
        })
        .datasets([("train", Dataset::from_items(rows).unwrap())])
        .metadata(json!({"by": "tests"}))
        .executor(if plan.processes { ExecutorKind::Processes } else { ExecutorKind::Threads })
        .total_resources(Bundle::from([("CPU".into(), 8.0)]))
        .run_config(RunConfig {
            name: Some("training".into()),
            storage_path: Some(home.into()),
            failure_config: FailureConfig {
                max_failures: Some(plan.max_failures),
                ..FailureConfig::default()
            },
            ..RunConfig::default()
        })
}

#[test]
#[ignore = "run by another test"]
fn child_fit() {
    let home = child_home();
    let plan: Plan = serde_json::from_slice(&fs::read(home.join("plan.json")).unwrap()).unwrap();
    let training = training(&home, &plan);
    child_main(&[&training.as_trainable().unwrap()]);
    let outcome = match training.fit() {
        Ok(result) => json!(result.metrics),
        Err(error) => json!({"error": error.to_string()}),
    };
    fs::write(home.join("outcome.json"), outcome.to_string()).unwrap();
}

/// What [`child_fit`] came to: the last result, or its `error`. No worker is left.
fn fit(plan: &Plan) -> Value {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("plan.json"), json!(plan).to_string()).unwrap();
    let output = in_child("data_parallel::child_fit", home.path(), "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(processes_of(home.path()), Vec::<u32>::new());
    serde_json::from_slice(&fs::read(home.path().join("outcome.json")).unwrap()).unwrap()
}

fn error(plan: &Plan) -> String {
    let outcome = fit(plan);
    let message = outcome["error"].as_str().unwrap_or_else(|| panic!("{plan:?}: {outcome}"));
    let message = message.strip_prefix("training failed: ").unwrap();
    message.split_once("; `Regression::restore(").unwrap().0.to_string()
}

/// Running processes that were started for the test with this directory.
fn processes_of(home: &Path) -> Vec<u32> {
    let variable = format!("PAVLOV_TEST_HOME={}", home.display());
    let of_home = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(of_home).collect()
}

fn numbers(outcome: &Value) -> [f64; 3] {
    ["loss", "w", "b"].map(|key| outcome[key].as_f64().unwrap_or_else(|| panic!("no {key} in {outcome}")))
}

#[test]
fn workers_have_the_losses_of_one_on_the_joined_batch() {
    let alone = numbers(&fit(&Plan { num_workers: None, ..Plan::default() }));
    // Each of 12 steps (6 epochs of 2 batches) has sums of 12 terms below 32 / 12, for no error is above sqrt(32). In any
    // two orders such a sum differs by at most 2 * 11 * 2^-53 * 32 = 7.9e-14 (Higham 2002, eq. 4.4). A step does not
    // enlarge what came before: lr = 0.1 times the largest curvature, 2 * (1 + mean of x^2) < 4, is below 2.
    let bound = 12.0 * 7.9e-14;
    for workers in [1, 2, 3] {
        let together = fit(&Plan { num_workers: Some(workers), ..Plan::default() });
        assert_eq!((&together["training_iteration"], &together["rank"]), (&json!(6), &json!(0)));
        for (one, all) in alone.iter().zip(numbers(&together)) {
            assert!((one - all).abs() <= bound, "{workers} workers: {one} and {all}");
        }
    }
    // It has learned: with w = b = 0 the loss is the mean of y^2, above 4.
    assert!(alone[0] < 1.0 && alone[1] > 2.0, "{alone:?}");
}

#[test]
fn workers_have_their_own_share_of_the_cores_and_not_that_of_their_trial() {
    // Unless the environment of the tests says otherwise.
    let threads = std::env::var("RAYON_NUM_THREADS").unwrap_or("2".into());
    for processes in [false, true] {
        let outcome = fit(&Plan { cpus_per_worker: 2.5, processes, ..Plan::default() });
        assert_eq!(outcome["threads"], threads, "{outcome}");
    }
}

#[test]
fn rows_that_cannot_be_shared_equally_are_given_to_no_worker() {
    // 24 rows make two batches for each of two workers, the 25th would make a third one for worker 0 alone.
    let even = fit(&Plan::default());
    assert_eq!(numbers(&fit(&Plan { rows: 25, ..Plan::default() })), numbers(&even));
}

/// Blocks that come one by one.
#[derive(Debug)]
struct Stream(Vec<usize>);

impl Datasource for Stream {
    fn blocks(&self) -> Result<Blocks> {
        let mut first = 0;
        let block = move |len: usize| {
            let ids: Vec<i64> = (first..first + len as i64).collect();
            first += len as i64;
            Block::new([("id", Array1::from(ids).into_dyn())])
        };
        Ok(Box::new(self.0.clone().into_iter().map(block)))
    }
}

#[test]
fn equal_shards_of_a_stream_are_those_of_rows_in_memory() {
    let ids = |dataset: &Dataset| -> Vec<i64> {
        dataset.iter_rows().unwrap().map(|row| row.unwrap()["id"].as_i64().unwrap()).collect()
    };
    for lens in [vec![10], vec![1; 11], vec![3, 0, 1, 2, 5], vec![2, 7, 1], vec![1], vec![0]] {
        let stream = Dataset::from_source(Stream(lens.clone()));
        let total: usize = lens.iter().sum();
        let memory = stream.materialize().unwrap();
        for world in 1..=5 {
            for rank in 0..world {
                let by_hand: Vec<i64> =
                    (0..total / world).map(|round| (round * world + rank) as i64).collect();
                assert_eq!(
                    ids(&stream.equal_shard(rank, world).unwrap()),
                    by_hand,
                    "{lens:?}, {rank} of {world}"
                );
                assert_eq!(
                    ids(&memory.equal_shard(rank, world).unwrap()),
                    by_hand,
                    "{lens:?}, {rank} of {world}"
                );
            }
        }
    }
    let message = Dataset::range(3).equal_shard(2, 2).unwrap_err().to_string();
    assert_eq!(message, "`rank` is 2, but it must be below the number of shards, 2");
}

#[test]
fn a_worker_or_trial_that_is_killed_is_tried_again_from_the_checkpoint_and_ends_the_same_to_the_bit() {
    let whole = numbers(&fit(&Plan::default()));
    for (mischief, processes) in [("kill", false), ("kill", true), ("kill_trial", true)] {
        let plan = Plan { mischief: mischief.into(), processes, max_failures: 1, ..Plan::default() };
        assert_eq!(numbers(&fit(&plan)).map(f64::to_bits), whole.map(f64::to_bits), "{plan:?}");
    }
}

#[test]
fn a_worker_that_fails_fails_the_attempt_with_its_number_and_reason_and_ends_the_others() {
    let equally = "all workers report equally often, and make the same collective calls";
    for (mischief, num_workers, message) in [
        ("panic", 2, "worker 1 failed: it panicked: no more".to_string()),
        ("error", 3, "worker 1 failed: a bad row".into()),
        ("abort", 3, "worker 1 failed: its process died of signal 6, an abort".into()),
        (
            "kill",
            3,
            "worker 1 failed: its process was killed (signal 9), by hand or because the machine ran out of memory"
                .into(),
        ),
        ("return", 3, format!("worker 1 failed: it returned after 2 reports while others went on: {equally}")),
        (
            "checkpoint",
            2,
            "worker 1 failed: `checkpoint` is reported by worker 1, but checkpoints are those of worker 0: report \
             `None` elsewhere, and send what it has to save to worker 0 by `all_gather`"
                .into(),
        ),
    ] {
        let plan = Plan { mischief: mischief.into(), num_workers: Some(num_workers), ..Plan::default() };
        assert_eq!(error(&plan), message);
    }
}

#[test]
fn a_worker_that_does_not_report_when_the_others_do_is_named_instead_of_waited_for() {
    let message = error(&Plan { mischief: "skip_report".into(), ..Plan::default() });
    assert!(message.contains("calls `all_reduce_f64` (Mean) of 3 values"), "{message}");
    assert!(message.contains("calls `session::report`"), "{message}");
}

#[test]
fn workers_end_when_their_driver_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let plan = Plan { mischief: "linger".into(), ..Plan::default() };
    fs::write(home.path().join("plan.json"), json!(plan).to_string()).unwrap();
    let mut driver = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "data_parallel::child_fit"])
        .env("PAVLOV_TEST_HOME", home.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let waits = |until: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !until() && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
        assert!(until());
    };
    // Worker 1 lingers, and worker 0 waits for it in `all_reduce`.
    waits(&|| home.path().join("once").exists());
    assert_eq!(processes_of(home.path()).len(), 3);
    driver.kill().unwrap();
    driver.wait().unwrap();
    waits(&|| processes_of(home.path()).is_empty());
}

#[test]
fn a_sweep_of_trainers_with_workers_stops_bad_trials_early() {
    let home = tempfile::tempdir().unwrap();
    let output = in_child("data_parallel::child_sweep", home.path(), "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(processes_of(home.path()), Vec::<u32>::new());
    // Both workers of the two trials that were stopped heard of it.
    let files = fs::read_dir(home.path()).unwrap().flatten();
    let stopped = files.filter(|file| file.file_name().to_string_lossy().starts_with("stopped_"));
    assert_eq!(stopped.count(), 4);
}

#[test]
#[ignore = "run by another test"]
fn child_sweep() {
    let home = child_home();
    let trainable = training(&home, &Plan::default()).as_trainable().unwrap();
    child_main(&[&trainable]);
    let mut tuner = Tuner::new(trainable).space(json!({"lr": grid_search([0.1, 0.001, 0.0001])}));
    tuner.tune_config.objective = Some(Objective::minimize("loss"));
    tuner.tune_config.max_concurrent_trials = Some(1);
    tuner.tune_config.total_resources = Some(Bundle::from([("CPU".into(), 3.0)]));
    let asha = AsyncHyperBandConfig { max_t: 100.0, grace_period: 2.0, ..AsyncHyperBandConfig::default() };
    tuner.tune_config.scheduler = Some(Box::new(AsyncHyperBandScheduler::new(asha).unwrap()));
    tuner.run_config.storage_path = Some(home);
    let grid = tuner.fit().unwrap();
    let iterations = |result: &pavlov_tune::TrialResult| {
        result.metrics.as_ref().map(|metrics| metrics["training_iteration"].as_u64().unwrap())
    };
    assert_eq!(grid.iter().map(iterations).collect::<Vec<_>>(), [Some(6), Some(2), Some(2)]);
}

#[test]
fn workers_without_child_main_are_refused_with_the_way_out() {
    let home = tempfile::tempdir().unwrap();
    let message = training(home.path(), &Plan::default()).fit().unwrap_err().to_string();
    let rule = "workers are processes: `main` must first call `child_main` with the trainable `Regression`";
    assert!(message.contains(&format!("`num_workers` is 2, but {rule}")), "{message}");
    let plan = Plan { num_workers: Some(0), ..Plan::default() };
    let home = tempfile::tempdir().unwrap();
    let message = training(home.path(), &plan).fit().unwrap_err().to_string();
    assert!(message.contains("`scaling_config.num_workers` is 0, but it must be 1 or more"), "{message}");
}
