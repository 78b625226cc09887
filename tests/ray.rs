//! Rollout workers on a Ray cluster: what [`processes`](crate::processes) says of processes, and what only a cluster has.
//!
//! They need a Python with Ray, which PAVLOV_TEST_RAY_PYTHON names, so they run when they are asked for: `cargo xtask test`
//! has a step for them. Every process that a test starts has the test's directory in its environment, and is gone at the end.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pavlov::prelude::*;
use pavlov::trainer::Builder;
use pavlov::tune::checkpoint;
use serde_json::{Value, json};

use crate::processes::{ON_RAY, child, is_running, signal, wait_for};
use crate::resume::assert_same_over;

fn python() -> PathBuf {
    std::env::var_os("PAVLOV_TEST_RAY_PYTHON").expect("PAVLOV_TEST_RAY_PYTHON names a Python with Ray").into()
}

/// Workers of this process are on Ray, on a cluster of their own.
fn on_ray(command: &mut Command) {
    command.env("PAVLOV_PYTHON", python()).env(ON_RAY, "1").env_remove("RAY_ADDRESS");
}

/// A process that drives workers, and what it has said.
fn driver(case: &str, how: &str, home: &Path) -> Command {
    fs::write(home.join("how"), how).expect("written");
    let mut command = child(case, home);
    on_ray(&mut command);
    command
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("a child");
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    assert!(output.status.success(), "{command:?}: {}", said.concat());
    output
}

/// Processes that a test with this directory has started, itself not among them.
fn processes(home: &Path) -> BTreeSet<u32> {
    let mark = format!("PAVLOV_TEST_HOME={}", home.display()).into_bytes();
    let all = fs::read_dir("/proc").expect("Linux").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark) && is_running(*pid)
        })
        .collect()
}

#[track_caller]
fn all_end(home: &Path) {
    wait_for("the end of all processes", || processes(home).is_empty().then_some(()));
}

/// What a process of these started with this command line.
fn named<'a>(pids: &'a BTreeSet<u32>, part: &'a str) -> impl Iterator<Item = u32> + 'a {
    let has = move |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(part)
    };
    pids.iter().copied().filter(has)
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_cluster_keeps_the_contract_of_a_transport_and_nothing_of_it_is_left() {
    let home = tempfile::tempdir().expect("a directory");
    succeeds(&mut driver("contract", "", home.path()));
    all_end(home.path());
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn ppo_and_dqn_on_a_cluster_are_those_on_threads_to_the_bit_and_go_from_one_to_the_other() {
    assert_same_over("ray", "ppo", 2, on_ray);
    assert_same_over("ray", "dqn", 3, on_ray);
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_worker_whose_process_or_actor_dies_or_stops_is_replaced_and_training_goes_on() {
    for (case, how) in [("replaced", "kill"), ("replaced", "kill its actor"), ("hangs", "stop")] {
        let home = tempfile::tempdir().expect("a directory");
        succeeds(&mut driver(case, how, home.path()));
        all_end(home.path());
    }
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn the_error_says_how_a_process_on_a_cluster_died() {
    for (how, reason) in [
        ("kill", "its process was killed (signal 9), by hand or because the machine ran out of memory"),
        ("exit", "its process exited with code 3"),
        ("kill its actor", "its actor is gone: "),
    ] {
        let home = tempfile::tempdir().expect("a directory");
        succeeds(&mut driver("fails", how, home.path()));
        let error = fs::read_to_string(home.path().join("error")).expect("an error");
        assert!(error.starts_with(&format!("worker 1 failed: {reason}")), "{error}");
        assert!(error.ends_with("; set `recreate_failed_workers` or `ignore_worker_failures` to carry on"), "{error}");
    }
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_driver_that_is_killed_leaves_no_worker_and_no_cluster() {
    let home = tempfile::tempdir().expect("a directory");
    let mut driver: Child =
        driver("endless", "", home.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a child");
    wait_for("the first fragment", || home.path().join("pids").exists().then_some(()));
    let started = processes(home.path());
    assert_eq!(named(&started, "gcs_server").count(), 1, "{started:?}");
    driver.kill().expect("it runs");
    driver.wait().expect("it ended");
    all_end(home.path());
}

/// Trains until what it trains with is gone, saves after every result, and says the error.
pub(crate) fn saves(builder: Builder<Ppo>, home: &Path) {
    let run = home.join("run");
    let mut trainer = builder.logdir(&run).build().expect("a trainer");
    let newest = || if run.exists() { checkpoint::latest(&run).expect("a readable run") } else { None };
    if let Some(newest) = newest() {
        trainer.restore(&newest).expect("a checkpoint that fits");
    }
    let error = loop {
        match trainer.train() {
            Ok(_) => trainer.save().map(drop).expect("a checkpoint"),
            Err(error) => break error,
        }
    };
    fs::write(home.join("error"), error.to_string()).expect("written");
}

/// Lays settings of another process over.
pub(crate) fn set(ppo: &mut Ppo, settings: &str) {
    let settings: Value = serde_json::from_str(settings).expect("settings");
    let mut all = json!(ppo.common);
    for (key, value) in settings.as_object().expect("an object") {
        all[key] = value.clone();
    }
    ppo.common = serde_json::from_value(all).expect("settings that can be");
}
