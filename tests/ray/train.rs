//! Workers that train together, on a cluster: what they come to is what processes of one machine come to, to the bit.

use std::fs;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::Command;

use pavlov::train::{
    BaseTrainer, DataParallelTrainer, ReduceOp, ScalingConfig, TrainLoop, Training, WorkerContext,
};
use pavlov::tune::session::{self, Checkpoint};
use pavlov::tune::{Bundle, FailureConfig, Result, RunConfig, child_main};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Cluster, all_end, on_ray, parent};
use crate::processes::signal;

const EPOCHS: u64 = 4;

/// Numbers that depend on what each worker adds, and on the order of the sums.
#[derive(Serialize, Deserialize)]
struct Sums {
    numbers: usize,
    mischief: String,
}

impl TrainLoop for Sums {
    fn train_loop_per_worker(&mut self, worker: &WorkerContext) -> Result<()> {
        let rank = worker.get_world_rank();
        let all = worker.collective();
        let state = worker.get_checkpoint().map(Checkpoint::to_dict).transpose()?;
        let (begun, mut sums) = match &state {
            Some(state) => (state["epoch"].as_u64().expect("a number"), numbers(&state["sums"])),
            None => (0, vec![1.0; self.numbers]),
        };
        for epoch in begun..EPOCHS {
            if epoch == 2 {
                self.make_mischief(rank);
            }
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = (*sum / 3.0 + (i + rank) as f32 / 7.0).sin();
            }
            all.all_reduce(&mut sums, ReduceOp::Sum)?;
            let place = format!("{rank} {} {}", worker.get_local_rank(), worker.get_node_rank());
            let places = all.all_gather(place.as_bytes())?;
            let places: Vec<_> = places.iter().map(|place| String::from_utf8_lossy(place)).collect();
            let bytes = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<u8>>();
            let equal = all.all_gather(&bytes)?.iter().all(|other| *other == bytes);
            let checkpoint =
                (rank == 0).then(|| Checkpoint::from_dict(json!({"epoch": epoch + 1, "sums": sums})));
            let metrics = json!({"sums": sums, "equal": equal, "places": places, "begun": begun});
            session::report(metrics, checkpoint)?;
        }
        Ok(())
    }
}

impl Sums {
    fn make_mischief(&self, rank: usize) {
        let home = std::env::var("PAVLOV_TEST_HOME").expect("run by a test");
        let is_first = || fs::File::create_new(Path::new(&home).join(&self.mischief)).is_ok();
        match &*self.mischief {
            "kill" if rank == 1 && is_first() => signal("KILL", std::process::id()),
            "kill its actor" if rank == 1 && is_first() => signal("KILL", parent_id()),
            // The machine that is not the driver's.
            "kill its machine" if std::env::var("PAVLOV_NODE_ADDRESS").as_deref() == Ok("127.0.0.3") => {
                signal("KILL", parent(parent_id()).expect("a raylet"));
            }
            _ => {}
        }
    }
}

fn numbers(of: &Value) -> Vec<f32> {
    let numbers = of.as_array().unwrap_or_else(|| panic!("{of}"));
    numbers.iter().map(|number| number.as_f64().expect("a number") as f32).collect()
}

fn training(plan: &Value) -> Training<DataParallelTrainer<Sums>> {
    let sums = Sums { numbers: 100_000, mischief: plan["mischief"].as_str().unwrap_or_default().into() };
    DataParallelTrainer::new(sums)
        .training()
        .scaling_config(serde_json::from_value::<ScalingConfig>(plan["scaling"].clone()).expect("a scaling"))
        .total_resources(Bundle::from([("CPU".into(), 4.0)]))
        .run_config(RunConfig {
            name: Some("training".into()),
            storage_path: plan["storage_path"].as_str().map(Into::into),
            failure_config: FailureConfig {
                max_failures: Some(plan["max_failures"].as_u64().unwrap_or(0)),
                ..FailureConfig::default()
            },
            ..RunConfig::default()
        })
}

#[test]
#[ignore = "run by another test"]
fn child_fit() {
    let plan = std::env::var("PAVLOV_TEST_PLAN").expect("run by another test");
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let training = training(&plan);
    child_main(&[&training.as_trainable().expect("a trainable")]);
    let outcome = match training.fit() {
        Ok(result) => json!(result.metrics),
        Err(error) => json!({"error": error.to_string()}),
    };
    let place = plan["outcome"].as_str().expect("a path");
    fs::write(place, outcome.to_string()).expect("written");
}

/// What a training in `home` comes to.
fn fit(home: &Path, mut plan: Value, prepare: impl FnOnce(&mut Command)) -> Value {
    let outcome = home.join("outcome.json");
    plan["outcome"] = json!(outcome);
    if plan["storage_path"].is_null() {
        plan["storage_path"] = json!(home.join(plan["scaling"].to_string().len().to_string()));
    }
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["--exact", "--ignored", "--nocapture", "ray::train::child_fit"])
        .env("PAVLOV_TEST_HOME", home)
        .env("PAVLOV_TEST_PLAN", plan.to_string())
        .current_dir(home);
    prepare(&mut command);
    let output = command.output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&fs::read_to_string(outcome).expect("an outcome")).expect("JSON")
}

#[track_caller]
fn assert_same(calm: &Value, other: &Value) {
    let bits = |of: &Value| numbers(&of["sums"]).into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(
        (&other["equal"], &other["training_iteration"]),
        (&json!(true), &json!(EPOCHS)),
        "{}",
        other["error"]
    );
    assert!(bits(calm) == bits(other), "the bits of {} numbers", bits(calm).len());
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn workers_that_train_together_on_a_cluster_have_the_bits_of_processes_whatever_dies_meanwhile() {
    let cluster = Cluster::start();
    let home = cluster.home.path();
    let joins = |command: &mut Command| {
        on_ray(command);
        cluster.belongs(command);
        command.env("RAY_ADDRESS", &cluster.address);
    };
    let calm = fit(home, json!({"scaling": {"num_workers": 2}}), |command| {
        // As where the training itself is a trial on Ray.
        command.env("PAVLOV_NODE_ADDRESS", "127.0.0.1");
    });
    assert_eq!(calm["places"], json!(["0 0 0", "1 1 0"]));
    for mischief in ["", "kill", "kill its actor"] {
        let scaling = json!({"workers": "ray:2", "placement_strategy": "STRICT_SPREAD"});
        let plan = json!({
            "scaling": scaling, "mischief": mischief, "max_failures": 1,
            "storage_path": home.join(format!("with {mischief}")),
        });
        let spread = fit(home, plan, joins);
        assert_same(&calm, &spread);
        assert_eq!(spread["places"], json!(["0 0 0", "1 0 1"]), "a worker on each machine");
        let begun = if mischief.is_empty() { 0 } else { 2 };
        assert_eq!(spread["begun"], json!(begun), "{mischief}: it goes on from the checkpoint");
    }
    // For each process it is another directory.
    let unseen = fit(
        home,
        json!({
            "scaling": {"workers": "ray:2", "placement_strategy": "STRICT_SPREAD"},
            "storage_path": "/proc/self/cwd/unseen",
        }),
        joins,
    );
    let error = unseen["error"].as_str().unwrap_or_else(|| panic!("{unseen}"));
    assert!(error.contains(" does not see the trial's directory /proc/self/cwd/unseen/"), "{error}");
    let much = fit(
        home,
        json!({"scaling": {"workers": "ray:2", "resources_per_worker": {"elsewhere": 3.0}}}),
        |command| {
            joins(command);
            command.env("TRAIN_PLACEMENT_GROUP_TIMEOUT_S", "3");
        },
    );
    let error = much["error"].as_str().unwrap_or_else(|| panic!("{much}"));
    assert!(
        error.contains("`scaling_config.workers` is \"ray\", but 2 workers by PACK need 6 elsewhere"),
        "{error}"
    );
    // What is left is one machine, which has room for both.
    let halves =
        json!({"workers": "ray:2", "placement_strategy": "SPREAD", "resources_per_worker": {"CPU": 0.5}});
    let left =
        fit(home, json!({"scaling": halves, "mischief": "kill its machine", "max_failures": 1}), joins);
    assert_same(&calm, &left);
    assert_eq!((&left["places"], &left["begun"]), (&json!(["0 0 0", "1 1 0"]), &json!(2)));
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn workers_on_a_cluster_of_their_own_leave_no_process_when_they_end_or_fail() {
    let home = tempfile::tempdir().expect("a directory");
    let calm = fit(home.path(), json!({"scaling": {"num_workers": 3}}), |_| {});
    let plan = json!({"scaling": {"workers": "ray", "num_workers": 3}});
    let own = fit(home.path(), plan, on_ray);
    assert_same(&calm, &own);
    assert_eq!(own["places"], json!(["0 0 0", "1 1 0", "2 2 0"]));
    all_end(home.path());
    let plan = json!({
        "scaling": {"workers": "ray:3"}, "mischief": "kill", "storage_path": home.path().join("fails"),
    });
    let failed = fit(home.path(), plan, on_ray);
    let error = failed["error"].as_str().unwrap_or_else(|| panic!("{failed}"));
    assert!(error.contains("worker 1 failed: its process was killed (signal 9)"), "{error}");
    all_end(home.path());
}
