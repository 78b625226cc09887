//! The command with URLs in place of directories, with an S3 server: train here, go on elsewhere.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::resume::assert_same;
use crate::server::Server;

/// Iterations of a few milliseconds.
const TINY: &str = "train PPO --env CartPole-v1 --seed 0 --num-workers 0 --set num_envs_per_worker=2 \
    --set train_batch_size=64 --set sgd_minibatch_size=32 --set num_sgd_iter=1 --set model.fcnet_hiddens=[8]";

/// A machine with nothing but access to the server.
struct Machine {
    environment: Vec<(String, String)>,
    results: TempDir,
}

impl Machine {
    fn new(server: &Server) -> Self {
        Machine { environment: server.environment(), results: tempfile::tempdir().unwrap() }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pavlov"));
        command.args(line.split_whitespace()).envs(self.environment.iter().cloned());
        command.env("PAVLOV_RESULTS_DIR", self.results.path()).env_remove("RUST_LOG");
        command
    }

    /// Standard output and standard error of what must succeed.
    #[track_caller]
    fn pavlov(&self, line: &str) -> (String, String) {
        let output = self.command(line).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let stdout = text(output.stdout);
        let stderr = text(output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
        (stdout, stderr)
    }

    /// Standard error of what must be refused as bad input.
    #[track_caller]
    fn refused(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        text
    }

    fn run(&self, path: &str) -> PathBuf {
        self.results.path().join(path)
    }
}

#[test]
fn a_run_is_resumed_and_evaluated_from_its_url_on_another_machine() {
    let Some(server) = Server::start() else { return };
    let here = Machine::new(&server);
    here.pavlov(&format!("{TINY} --stop training_iteration=4 --out {}", here.run("whole").display()));
    let (_, said) =
        here.pavlov(&format!("{TINY} --stop training_iteration=2 --checkpoint-freq 1 --out s3://pavlov/run"));
    assert!(said.contains("kept at:       s3://pavlov/run\n"), "{said}");
    assert!(
        said.contains("train longer:  pavlov resume s3://pavlov/run --stop training_iteration=VALUE"),
        "{said}"
    );
    assert_eq!(fs::read_dir(here.run("s3/pavlov/run")).unwrap().filter(is_checkpoint).count(), 1);
    let message = here.refused(&format!("{TINY} --out s3://pavlov/run"));
    assert!(message.contains("holds a run already"), "{message}");

    let elsewhere = Machine::new(&server);
    let message = elsewhere.refused(&format!("{TINY} --out s3://pavlov/run"));
    let expected = "something lies at s3://pavlov/run already; continue a run there with \
        `pavlov resume s3://pavlov/run`, or give --out another URL";
    assert!(message.contains(expected), "{message}");
    let (_, said) = elsewhere.pavlov("resume s3://pavlov/run --stop training_iteration=4");
    assert!(said.contains("resuming from"), "{said}");
    assert_same(&here.run("whole"), &elsewhere.run("s3/pavlov/run"));

    let third = Machine::new(&server);
    let played = |machine: &Machine, what: &str| -> Value {
        let (text, _) = machine.pavlov(&format!("evaluate {what} --episodes 3 --json"));
        serde_json::from_str::<Value>(&text).unwrap()["episode_rewards"].clone()
    };
    let whole = played(&here, &here.run("whole").display().to_string());
    assert_eq!(played(&third, "s3://pavlov/run"), whole);
    assert_eq!(played(&third, "s3://pavlov/run/checkpoint_000004"), whole);
    let message = third.refused("evaluate s3://pavlov/nothing");
    assert!(message.contains("checkpoint s3://pavlov/nothing: there is no whole checkpoint"), "{message}");
    let message = third.refused("resume s3://pavlov/nothing");
    assert!(message.contains("there is no run: nothing lies there"), "{message}");
}

fn is_checkpoint(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("checkpoint_"))
}

#[test]
fn a_misspelt_criterion_leaves_nothing_at_the_url() {
    let Some(server) = Server::start() else { return };
    let machine = Machine::new(&server);
    machine.refused(&format!("{TINY} --stop episode_reward_maen=4 --out s3://pavlov/run"));
    assert_eq!(server.open("s3://pavlov").list("").unwrap(), []);
}

#[test]
fn a_sweep_is_killed_here_and_finished_elsewhere_from_its_url() {
    let Some(server) = Server::start() else { return };
    let here = Machine::new(&server);
    let file = here.run("sweep.toml");
    let sweep = r#"
        algorithm = "PPO"
        env = "CartPole-v1"
        num_samples = 3
        seed = 1
        max_concurrent_trials = 1
        [stop]
        training_iteration = 4
        [checkpoint]
        checkpoint_frequency = 1
        [space]
        seed = 0
        num_workers = 0
        num_envs_per_worker = 2
        train_batch_size = 64
        sgd_minibatch_size = 32
        num_sgd_iter = 1
        model = { fcnet_hiddens = [8] }
        lr = { loguniform = [1e-4, 1e-2] }
    "#;
    fs::write(&file, sweep).unwrap();
    let trials = |machine: &Machine, line: &str| -> Vec<Value> {
        let (text, _) = machine.pavlov(line);
        let trial = |line: &str| {
            let trial: Value = serde_json::from_str(line).unwrap();
            let result = &trial["result"];
            json!([
                trial["status"],
                trial["config"],
                result["episode_reward_mean"],
                result["info"]["learner"]
            ])
        };
        text.lines().map(trial).collect()
    };
    let file = file.display();
    let whole = trials(&here, &format!("tune {file} --json --out {}", here.run("whole").display()));
    let mut child =
        here.command(&format!("tune {file} --quiet --out s3://pavlov/sweeps/first")).spawn().unwrap();
    let storage = server.open("s3://pavlov/sweeps/first");
    while !storage
        .list("")
        .unwrap()
        .iter()
        .any(|object| object.path.ends_with("checkpoint_000002/manifest.json"))
    {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let elsewhere = Machine::new(&server);
    assert_eq!(trials(&elsewhere, "tune --resume s3://pavlov/sweeps/first --json"), whole);
}
