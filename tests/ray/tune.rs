//! Ray Tune drives pavlov through the module that `pavlov tune-shim` prints.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{all_end, named, processes, python, succeeds};
use crate::cli::{command, run};
use crate::processes::{is_running, signal, wait_for};

/// The process of tests/ray/tune.py that does this; it has a cluster of its own.
fn tune(what: &str, home: &Path) -> Command {
    let module = run(&mut command(["tune-shim"])).ok().stdout;
    fs::write(home.join("pavlov_tune.py"), module).expect("written");
    let mut tune = Command::new(python());
    tune.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ray/tune.py")).arg(what).arg(home);
    tune.env("PAVLOV", env!("CARGO_BIN_EXE_pavlov")).env("PAVLOV_TEST_HOME", home).env_remove("RAY_ADDRESS");
    tune
}

#[track_caller]
fn holds(what: &str) {
    let home = tempfile::tempdir().expect("a directory");
    succeeds(&mut tune(what, home.path()));
    all_end(home.path());
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn asha_of_ray_tune_stops_the_worse_trials() {
    holds("asha");
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn pbt_of_ray_tune_copies_checkpoints_and_changes_settings() {
    holds("pbt");
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn settings_that_cannot_be_are_refused_in_ray_tune_with_the_sentence_of_pavlov() {
    holds("refused");
}

#[test]
#[ignore = "needs Ray: a step of `cargo xtask test`"]
fn a_sweep_of_ray_tune_whose_actor_and_driver_are_killed_leaves_no_process_and_ends_as_the_undisturbed_one() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    let mut killed = tune("killed", home).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Ray");
    wait_for("results", || (count(home) > 0).then_some(()));

    let two = || {
        let all: Vec<u32> = named(&processes(home), "pavlov trainable").collect();
        (all.len() == 2).then_some(all)
    };
    let trial = wait_for("two trials", two)[0];
    signal("KILL", parent(trial));
    wait_for("the end of the trial's process", || (!is_running(trial)).then_some(()));
    wait_for("two trials again", two);
    let before = count(home);
    wait_for("more results", || (count(home) > before).then_some(()));
    // Ray's driver writes it in place, now and then: it is looked at while the driver stands still.
    let stopped_with_state = || {
        signal("STOP", killed.id());
        let whole = has_state(home);
        if !whole {
            signal("CONT", killed.id());
        }
        whole.then_some(())
    };
    wait_for("a whole state of the sweep", stopped_with_state);

    killed.kill().expect("it runs");
    killed.wait().expect("it ended");
    all_end(home);
    succeeds(&mut tune("restored", home));
    all_end(home);
}

/// The actor of a trial.
fn parent(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
    line.trim().parse().expect("a number")
}

/// Whether Ray can restore the sweep `killed`: no file of its state is half written, and each trial has the results that this state
/// counts. Ray copies all of them one after the other, so a moment's copy can have a state without its last results. The trials
/// are in JSON files. Their generator is in pickles, and a whole pickle ends with a dot.
fn has_state(home: &Path) -> bool {
    let is_state = |bytes: &[u8]| serde_json::from_slice(bytes).is_ok_and(|state| has_results(&state, home));
    let is_pickle = |bytes: &[u8]| bytes.last() == Some(&b'.');
    are_whole(home, "experiment_state", is_state) && are_whole(home, "basic-variant-state", is_pickle)
}

/// Whether the results of the sweep `killed` reach as far as this state of Ray's says.
fn has_results(state: &Value, home: &Path) -> bool {
    let results: Result<Vec<Value>, _> = lines(home).iter().map(|line| from_python(line)).collect();
    // A half line: Ray is copying the file.
    let Ok(results) = results else { return false };
    let trials = state["trial_data"].as_array().expect("trials");
    trials.iter().all(|trial| {
        let come_to = from_python(trial[1].as_str().expect("a text")).expect("JSON");
        let last = &come_to["last_result"];
        let is_last =
            |result: &Value| ["trial_id", "training_iteration"].iter().all(|key| result[*key] == last[*key]);
        last["training_iteration"].is_null() || results.iter().any(is_last)
    })
}

/// Reads JSON as Python writes it, with names for numbers that JSON does not have.
fn from_python(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(
        &text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null"),
    )
}

/// Whether there is a file of the sweep `killed` with this beginning of its name, and every one is whole.
fn are_whole(home: &Path, beginning: &str, is_whole: impl Fn(&[u8]) -> bool) -> bool {
    let all = fs::read_dir(home.join("results/killed")).into_iter().flatten().flatten();
    let named = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with(beginning);
    let files: Vec<_> = all.filter(named).collect();
    !files.is_empty() && files.iter().all(|file| fs::read(file.path()).is_ok_and(|bytes| is_whole(&bytes)))
}

/// How many results the trials of the sweep `killed` have.
fn count(home: &Path) -> usize {
    lines(home).len()
}

/// The lines of the results of the sweep `killed`, of one trial after the other; the last one of a trial can be half written.
fn lines(home: &Path) -> Vec<String> {
    let trials = fs::read_dir(home.join("results/killed")).into_iter().flatten().flatten();
    let results =
        trials.map(|trial| fs::read_to_string(trial.path().join("result.json")).unwrap_or_default());
    results.flat_map(|results| results.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}
