//! A run that was stopped and continued in a new process is the run that was never stopped, bit for bit.
//!
//! Every case trains 2N iterations at one go, and N iterations plus N more in another process, with the built command,
//! and compares the final checkpoints file by file (weights, optimizers, counters, filters, replay, random streams,
//! environments in the middle of their episodes) and all results.

use pavlov::tune::{Metrics, checkpoint, difference, loggers::read_results};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// Files that hold wall time and process numbers: their contents are compared metric by metric instead.
const TIMED: [&str; 2] = ["manifest.json", "metadata.json"];

fn pavlov(args: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_pavlov")).args(args).output().expect("the command starts");
    assert!(output.status.success(), "pavlov {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn train(dir: &Path, iterations: usize, case: &[&str]) {
    let stop = format!("training_iteration={iterations}");
    let dir = dir.to_str().expect("a plain path");
    pavlov(&[&["train"], case, &["--seed", "3", "--quiet", "--out", dir, "--stop", &stop]].concat());
}

fn resume(dir: &Path, iterations: usize) {
    let stop = format!("training_iteration={iterations}");
    pavlov(&["resume", dir.to_str().expect("a plain path"), "--quiet", "--stop", &stop]);
}

fn newest(dir: &Path) -> PathBuf {
    checkpoint::latest(dir).expect("a readable run").expect("a checkpoint")
}

fn assert_same_state(straight: &Path, resumed: &Path) {
    let (a, b) = (newest(straight), newest(resumed));
    assert_eq!(a.file_name(), b.file_name(), "the runs are of the same length");
    let manifest = checkpoint::verify(&a, None).expect("a whole checkpoint");
    for file in manifest.files.iter().filter(|f| !TIMED.contains(&f.path.as_str())) {
        let read = |dir: &Path| std::fs::read(dir.join(&file.path)).expect("a file of the manifest");
        assert!(read(&a) == read(&b), "{} differs", file.path);
    }
}

fn assert_same_results(straight: &Path, resumed: &Path) {
    let read = |dir: &Path| read_results(dir).expect("readable results");
    let (a, b): (Vec<Metrics>, Vec<Metrics>) = (read(straight), read(resumed));
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(difference(a, b), None);
    }
}

/// Trains 2N iterations at one go and in two processes.
fn check(n: usize, case: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let (straight, resumed) = (dir.path().join("straight"), dir.path().join("resumed"));
    train(&straight, 2 * n, case);
    train(&resumed, n, case);
    resume(&resumed, 2 * n);
    assert_same_state(&straight, &resumed);
    assert_same_results(&straight, &resumed);
}

const PPO: [&str; 10] = [
    "PPO",
    "--set",
    "train_batch_size=400",
    "--set",
    "num_sgd_iter=2",
    "--set",
    "model.fcnet_hiddens=[16]",
    "--set",
    "num_envs_per_worker=2",
    "--env",
];
const DQN: [&str; 8] = [
    "DQN",
    "--set",
    "min_sample_timesteps_per_reporting=400",
    "--set",
    "replay_buffer_config.learning_starts=100",
    "--set",
    "model.fcnet_hiddens=[16]",
    "--env",
];

#[test]
fn ppo_alone_and_with_two_workers() {
    for workers in ["0", "2"] {
        check(2, &[&PPO[..], &["CartPole-v1", "--num-workers", workers]].concat());
    }
}

#[test]
fn ppo_continuous_with_filters_and_evaluation() {
    let more = ["--set", "observation_filter=MeanStdFilter", "--set", "evaluation_interval=1"];
    for workers in ["0", "2"] {
        check(2, &[&PPO[..], &["Pendulum-v1", "--num-workers", workers], &more].concat());
    }
}

#[test]
fn ppo_on_complete_episodes() {
    for workers in ["0", "2"] {
        let case = ["CartPole-v1", "--num-workers", workers, "--set", "batch_mode=complete_episodes"];
        check(2, &[&PPO[..], &case].concat());
    }
}

#[test]
fn dqn_alone_and_with_two_workers() {
    for workers in ["0", "2"] {
        check(2, &[&DQN[..], &["CartPole-v1", "--num-workers", workers]].concat());
    }
}

#[test]
fn dqn_with_atoms_noise_and_n_steps() {
    let more = ["--set", "num_atoms=5", "--set", "noisy=true", "--set", "n_step=3", "--set", "v_max=50.0"];
    check(2, &[&DQN[..], &["CartPole-v1", "--num-workers", "2"], &more].concat());
}

#[test]
fn a_killed_run_continues_from_its_last_checkpoint() {
    let case = [&PPO[..], &["CartPole-v1", "--num-workers", "0", "--checkpoint-freq", "1"]].concat();
    let dir = tempfile::tempdir().expect("a directory");
    let (straight, killed) = (dir.path().join("straight"), dir.path().join("killed"));
    let iterations = 40;
    train(&straight, iterations, &case);
    let stop = format!("training_iteration={iterations}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_pavlov"))
        .arg("train")
        .args(&case)
        .args(["--seed", "3", "--quiet", "--stop", &stop, "--out"])
        .arg(&killed)
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    // As soon as there is a checkpoint: in the middle of the run, wherever that is.
    while checkpoint::latest(&killed).ok().flatten().is_none() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("a child");
    resume(&killed, iterations);
    assert_same_state(&straight, &killed);
    assert_same_results(&straight, &killed);
}
