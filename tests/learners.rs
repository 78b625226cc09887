//! Learners that share the work of each gradient: whatever their number and wherever they are, a run is that of the trainer
//! alone, to the bit; and a learner that is lost changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pavlov::prelude::*;
use pavlov::trainer::{TrainerExt, batch::SampleBatch, settings::Workers};
use pavlov::tune::child_main;
use serde_json::{Value, json};

use crate::processes::{signal, wait_for};
use crate::resume::{Case, assert_same_with};
use crate::support::{number, refused, tiny_ppo};

/// Runs whose batches are cut into several pieces.
pub(crate) fn case(name: &str) -> Option<Case> {
    let (algorithm, env, settings) = match name {
        "ppo_of_large_batches" => (
            "PPO",
            "CartPole-v1",
            json!({
                "train_batch_size": 1600, "sgd_minibatch_size": 800, "kl_coeff": 0.2, "grad_clip": 0.5,
                "observation_filter": "MeanStdFilter",
            }),
        ),
        "ppo_of_large_batches_on_libtorch" => (
            "PPO",
            "CartPole-v1",
            json!({
                "train_batch_size": 4800, "sgd_minibatch_size": 2400, "model": {"fcnet_hiddens": [8], "fused": false},
            }),
        ),
        "ppo_of_large_batches_that_remembers" => (
            "PPO",
            "CartPole-v1",
            json!({
                "train_batch_size": 1600, "sgd_minibatch_size": 800,
                "model": {"fcnet_hiddens": [8], "use_lstm": true, "lstm_cell_size": 4, "max_seq_len": 10},
            }),
        ),
        "ppo_of_large_batches_of_two_policies" => (
            "PPO",
            "simple_spread_v3",
            json!({
                "train_batch_size": 1200, "sgd_minibatch_size": 600, "multiagent": {
                    "policies": ["one", "rest"], "policy_mapping_fn": {"agent_0": "one", "*": "rest"},
                },
            }),
        ),
        "dqn_of_large_batches_by_priorities" => (
            "DQN",
            "CartPole-v1",
            json!({
                "train_batch_size": 600, "training_intensity": 100, "replay_buffer_config": {
                    "type": "PrioritizedReplayBuffer", "capacity": 1000, "learning_starts": 20,
                },
            }),
        ),
        "dqn_of_large_noisy_batches" => (
            "DQN",
            "CartPole-v1",
            json!({
                "train_batch_size": 2400, "training_intensity": 100, "noisy": true, "num_atoms": 5, "v_min": 0.0,
                "v_max": 50.0, "replay_buffer_config": {"capacity": 3000},
            }),
        ),
        "qmix_of_large_batches" => (
            "QMIX",
            "simple_spread_v3",
            json!({
                "train_batch_size": 600, "training_intensity": 100,
                "replay_buffer_config": {"capacity": 1000, "learning_starts": 20},
            }),
        ),
        "sac_of_large_batches" => ("SAC", "Pendulum-v1", replayed()),
        "td3_of_large_batches" => ("TD3", "Pendulum-v1", replayed()),
        "impala_of_large_batches" => (
            "IMPALA",
            "CartPole-v1",
            json!({
                "train_batch_size": 800, "min_sample_timesteps_per_reporting": 800,
            }),
        ),
        _ => return None,
    };
    Some(Case { algorithm, env, settings })
}

fn replayed() -> Value {
    json!({"train_batch_size": 800, "training_intensity": 40, "replay_buffer_config": {"capacity": 1000}})
}

/// The run of the trainer alone is that of so many learners, and that which goes on with them from its middle.
#[track_caller]
fn assert_same_with_learners(name: &str, learners: usize) {
    let alone = json!({"workers": "threads:0"});
    let along = json!({"workers": "threads:0", "learners": format!("procs:{learners}")});
    assert_same_with(name, (&alone, &along), ("num_learners", json!(learners)), |_| ());
}

#[test]
fn ppo_of_several_learners_is_ppo_of_one_to_the_bit() {
    for (name, learners) in [
        ("ppo_of_large_batches", 2),
        ("ppo_of_large_batches", 3),
        ("ppo_of_large_batches_on_libtorch", 2),
        ("ppo_of_large_batches_that_remembers", 3),
        ("ppo_of_large_batches_of_two_policies", 2),
    ] {
        assert_same_with_learners(name, learners);
    }
}

#[test]
fn dqn_qmix_sac_td3_and_impala_of_several_learners_are_those_of_one_to_the_bit() {
    for (name, learners) in [
        ("dqn_of_large_batches_by_priorities", 2),
        ("dqn_of_large_noisy_batches", 2),
        ("qmix_of_large_batches", 2),
        ("sac_of_large_batches", 3),
        ("td3_of_large_batches", 2),
        ("impala_of_large_batches", 2),
    ] {
        assert_same_with_learners(name, learners);
    }
}

#[test]
fn batches_that_are_too_small_to_be_shared_are_learned_by_every_learner_to_the_bit() {
    assert_same_with_learners("ppo", 2);
}

/// Does to a learner what the test says, before the trainer's third learning step.
#[derive(Default)]
struct Mischief {
    steps: usize,
}

impl Callbacks for Mischief {
    fn on_learn_on_batch(&mut self, _: &str, _: &SampleBatch, _: &mut BTreeMap<String, f64>) -> Result<()> {
        self.steps += 1;
        if self.steps == 3 {
            match &*plan().0 {
                "calm" => {}
                how => signal(how, learners(&home()).pop().expect("a learner")),
            }
        }
        Ok(())
    }
}

/// The processes of this binary that the test of this directory has started, without this one.
fn learners(home: &Path) -> Vec<u32> {
    let binary = std::env::current_exe().expect("this binary");
    let is_this = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == binary);
    let mut all = crate::ray::processes(home);
    all.remove(&std::process::id());
    all.into_iter().filter(is_this).collect()
}

fn home() -> PathBuf {
    PathBuf::from(std::env::var("PAVLOV_TEST_HOME").expect("run by another test"))
}

/// What is done to a learner, and settings.
fn plan() -> (String, Value) {
    let plan = std::env::var("PAVLOV_TEST_PLAN").expect("run by another test");
    serde_json::from_str(&plan).expect("what `learn` wrote")
}

#[test]
#[ignore = "run in a process of its own by the other tests"]
fn child_learns() {
    let mut ppo = tiny_ppo();
    let common = &mut ppo.common;
    common.seed = Some(5);
    common.num_envs_per_worker = 8;
    common.rollout_fragment_length = 200;
    common.train_batch_size = 1600;
    ppo.sgd_minibatch_size = 800;
    ppo.num_sgd_iter = 3;
    let settings = plan().1;
    if !settings.is_null() {
        crate::ray::set(&mut ppo, &settings.to_string());
    }
    let builder = ppo.builder("CartPole-v1").callbacks(Mischief::default).loggers(LoggerChoice::None);
    child_main(&[&builder.as_trainable()]);
    let mut trainer = builder.build().expect("a trainer");
    let mut outcome = Ok(Metrics::new());
    for _ in 0..3 {
        outcome = outcome.and_then(|_| trainer.train());
    }
    let outcome = match outcome {
        Ok(result) => {
            let weights = trainer.get_weights().expect("weights");
            json!({
                "weights": format!("{weights:?}"), "healthy": number(&result, "num_healthy_learners"),
                "restarts": number(&result, "num_learner_restarts"), "learners": learners(&home()).len(),
            })
        }
        Err(error) => json!({"error": error.to_string()}),
    };
    fs::write(home().join("outcome.json"), outcome.to_string()).expect("written");
}

/// What three iterations come to.
#[track_caller]
pub(crate) fn learn(how: &str, settings: &Value, prepare: impl FnOnce(&mut Command)) -> Value {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["--exact", "--ignored", "--nocapture", "learners::child_learns"])
        .env("PAVLOV_TEST_HOME", home.path())
        .env("PAVLOV_TEST_PLAN", json!([how, settings]).to_string());
    prepare(&mut command);
    let output = command.output().expect("a child");
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    assert!(output.status.success(), "{}", said.concat());
    wait_for("the end of all processes", || crate::ray::processes(home.path()).is_empty().then_some(()));
    serde_json::from_str(&fs::read_to_string(home.path().join("outcome.json")).expect("an outcome"))
        .expect("JSON")
}

#[test]
#[cfg(target_os = "linux")]
fn a_learner_that_dies_or_stands_still_changes_nothing_in_what_is_learned() {
    let calm = learn("calm", &json!({"learners": "procs:3"}), |_| ());
    assert_eq!(
        [&calm["healthy"], &calm["restarts"], &calm["learners"]],
        [&json!(3.0), &json!(0.0), &json!(2)]
    );
    for (how, key, left) in [
        ("KILL", "recreate_failed_workers", [3.0, 1.0, 2.0]),
        ("STOP", "recreate_failed_workers", [3.0, 1.0, 2.0]),
        ("KILL", "ignore_worker_failures", [1.0, 0.0, 0.0]),
    ] {
        let settings = json!({"learners": "procs:3", key: true, "worker_health_probe_timeout_s": 10});
        let outcome = learn(how, &settings, |_| ());
        let found = ["healthy", "restarts", "learners"].map(|key| outcome[key].as_f64().expect("a number"));
        assert_eq!(found, left, "{how} {key}");
        assert!(outcome["weights"] == calm["weights"], "{how} {key}");
    }
    let outcome = learn("KILL", &json!({"learners": "procs:3"}), |_| ());
    let error = outcome["error"].as_str().expect("an error");
    let ended = "its process was killed (signal 9), by hand or because the machine ran out of memory";
    let way_out = "set `recreate_failed_workers` or `ignore_worker_failures` to carry on";
    assert!(
        error.starts_with("learner ") && error.ends_with(&format!("failed: {ended}; {way_out}")),
        "{error}"
    );
}

#[test]
fn settings_of_learners_that_have_no_effect_or_cannot_be_are_refused() {
    let with = |change: fn(&mut Ppo)| {
        let mut ppo = tiny_ppo();
        change(&mut ppo);
        ppo.builder("CartPole-v1").loggers(LoggerChoice::None).build()
    };
    refused(
        with(|ppo| ppo.common.learners = Workers { number: Some(2), ..Workers::default() }),
        &["`learners` is \"threads\"", "choose \"procs\" or \"ray\""],
    );
    refused(
        with(|ppo| ppo.common.learners = Workers::ray(1)),
        &["`learners` is \"ray\", but the trainer learns alone: set `num_learners` to at least 2"],
    );
    refused(
        with(|ppo| ppo.common.num_cpus_per_learner = 2),
        &["`num_cpus_per_learner` is 2, but the trainer learns alone"],
    );
    refused(with(|ppo| ppo.common.num_learners = 100), &["`num_learners` is 100, but it must be at most 64"]);
    refused(
        with(|ppo| {
            ppo.common.num_learners = 2;
            ppo.common.num_gpus = 1;
        }),
        &["`num_learners` is 2, but learners exchange numbers of the CPU: set `num_gpus` to 0"],
    );
    // This process has not called `child_main`.
    refused(with(|ppo| ppo.common.num_learners = 2), &["`learners` is \"procs\"", "begin with `child_main`"]);
}
