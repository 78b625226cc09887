//! The client in Python plays CartPole for a run, and is killed on the way.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::http::free_address;
use crate::support::python_with;

/// Number of times that a program is killed.
const KILLS: usize = 10;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Trains with a preset on the episodes of two programs, one of which is killed ten times; returns the last result.
fn trained(python: &std::ffi::OsStr, algorithm: &str, preset: &str, more: &[&str]) -> Value {
    let address = free_address();
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let settings = [
        format!("env_config.address={address}"),
        "env_config.observation_space=Box(-inf, inf, (4,), float32)".into(),
        "env_config.action_space=Discrete(2)".into(),
    ];
    let mut train = Command::new(env!("CARGO_BIN_EXE_pavlov"));
    train.args(["train", algorithm, "--preset", preset, "--env", "PolicyServerInput", "--seed", "1"]);
    settings.iter().for_each(|setting| _ = train.args(["--set", setting]));
    train.args(more).args(["--stop", "episode_reward_mean=475", "--stop", "timesteps_total=200000", "--out"]);
    let log = std::fs::File::create(folder.path().join("log")).expect("a log");
    let log_too = log.try_clone().expect("a log");
    let mut train = Killed(train.arg(&run).stdout(log).stderr(log_too).spawn().expect("a run"));
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/external/cartpole.py");
    let play = |seed: usize| {
        let mut game = Command::new(python);
        game.arg(&client).args([&address, "1000000", &seed.to_string()]).stdout(Stdio::null());
        Killed(game.spawn().expect("a program"))
    };
    while std::net::TcpStream::connect(&address).is_err() {
        let ended = train.0.try_wait().expect("a run");
        assert_eq!(ended, None, "{}", std::fs::read_to_string(folder.path().join("log")).expect("a log"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let _steady = play(0);
    for seed in 0..KILLS {
        let _game = play(1 + seed);
        std::thread::sleep(Duration::from_millis(1500));
    }
    let _last = play(100);
    let ended = train.0.wait().expect("a run");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("a log");
    assert!(ended.success(), "{log}");
    let results = std::fs::read_to_string(run.join("result.json")).expect("results");
    serde_json::from_str(results.lines().last().expect("a result")).expect("a result")
}

#[test]
fn the_settings_of_the_page_wait_for_programs() {
    let page = include_str!("../../docs/external.md");
    let block = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let address = free_address();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("server.toml");
    std::fs::write(&file, block.replace("127.0.0.1:9900", &address)).expect("written");
    let log = std::fs::File::create(folder.path().join("log")).expect("a log");
    let mut train = Command::new(env!("CARGO_BIN_EXE_pavlov"));
    train.args(["train", "PPO", "--config"]).arg(&file).arg("--out").arg(folder.path().join("run"));
    let mut train = Killed(train.stdout(Stdio::null()).stderr(log).spawn().expect("a run"));
    while std::net::TcpStream::connect(&address).is_err() {
        let ended = train.0.try_wait().expect("a run");
        assert_eq!(ended, None, "{}", std::fs::read_to_string(folder.path().join("log")).expect("a log"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ppo_balances_a_pole_in_python_whose_program_is_killed_ten_times() {
    let Some(python) = python_with("gymnasium") else { return };
    let result = trained(&python, "PPO", "ppo-cartpole", &[]);
    assert!(result["episode_reward_mean"].as_f64() >= Some(475.0), "{result}");
}

#[test]
#[ignore = "a minute or two; run it after changes to sampling from other programs"]
fn dqn_balances_a_pole_in_python_whose_program_is_killed_ten_times() {
    let Some(python) = python_with("gymnasium") else { return };
    let more = ["--set", "num_envs_per_worker=2"];
    let result = trained(&python, "DQN", "dqn-cartpole", &more);
    assert!(result["episode_reward_mean"].as_f64() >= Some(475.0), "{result}");
}
