//! The command `pavlov` as a user meets it: output, exit codes, errors, and runs that are stopped, killed and resumed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

mod agents;
mod disks;
mod faults;
mod interruptions;
mod listings;
mod loggers;
mod plot;
mod refusals;
#[cfg(feature = "storage")]
mod remote;
mod report;
mod report_server;
mod second_hour;
mod settings;
pub(crate) mod sweeps;
mod trainable;
mod training;
mod translations;
mod trust;
mod verify;
#[cfg(target_os = "linux")]
mod watch;

/// Iterations of a few milliseconds.
const TINY: &[&str] = &[
    "PPO",
    "--env",
    "CartPole-v1",
    "--seed",
    "0",
    "--num-workers",
    "0",
    "--set",
    "num_envs_per_worker=2",
    "--set",
    "train_batch_size=64",
    "--set",
    "sgd_minibatch_size=32",
    "--set",
    "num_sgd_iter=1",
    "--set",
    "model.fcnet_hiddens=[8]",
];

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Ran {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// Bad usage or input, with this in the error.
    #[track_caller]
    pub(crate) fn refused(self, text: &str) {
        assert_eq!(self.code, Some(2), "{}", self.stderr);
        // A run that begins may have named presets before.
        let error = self.stderr.lines().find(|line| !line.starts_with("no preset: ")).unwrap_or_default();
        assert!(error.starts_with("error: "), "{}", self.stderr);
        assert!(self.stderr.contains(text), "no {text:?} in: {}", self.stderr);
        assert_eq!(self.stdout, "");
    }
}

pub(crate) fn command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pavlov"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

pub(crate) fn run(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary that cargo just built");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub(crate) fn pavlov(args: &[&str]) -> Ran {
    run(&mut command(args))
}

/// `pavlov train` with tiny settings into `out`.
pub(crate) fn train(out: &Path, more: &[&str]) -> Command {
    let mut train = command(["train"]);
    train.args(TINY).arg("--out").arg(out).args(more);
    train
}

/// Starts a run that only a signal ends, and waits for its third result.
pub(crate) fn start_endless(out: &Path, more: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    after_three_results(train(out, &["--json"]).args(more))
}

/// Starts a command that prints results as JSON, and waits for the third one.
pub(crate) fn after_three_results(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary that cargo just built");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    for _ in 0..3 {
        line.clear();
        stdout.read_line(&mut line).expect("a line of JSON");
    }
    assert!(!line.is_empty(), "the run ended by itself");
    (child, stdout)
}

pub(crate) fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
    assert!(sent.expect("the program kill").success(), "the child is not running");
}

pub(crate) fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().expect("a child");
    let stderr = String::from_utf8(output.stderr).expect("text");
    Ran { code: output.status.code(), stdout: String::new(), stderr }
}

pub(crate) fn checkpoints(run_dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(run_dir)
        .expect("a run directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .filter(|name| name.starts_with("checkpoint_"))
        .collect();
    names.sort();
    names
}

pub(crate) fn iterations(results: &[Value]) -> Vec<u64> {
    results.iter().map(|result| result["training_iteration"].as_u64().expect("a number")).collect()
}

pub(crate) fn logged(run_dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run_dir.join("result.json")).expect("result.json");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub(crate) fn scratch() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = dir.path().join("run");
    (dir, out)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}
