//! `pavlov trainable`, the trial that Ray Tune drives, asked as the module of `pavlov tune-shim` asks it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::{command, scratch, text};
use crate::processes::wait_for;

/// Settings with iterations of a few milliseconds.
fn tiny(changes: Value) -> Value {
    let mut settings = json!({
        "algorithm": "PPO", "env": "CartPole-v1", "seed": 0, "num_workers": 0, "num_envs_per_worker": 2,
        "train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 1, "model": {"fcnet_hiddens": [8]},
    });
    for (key, value) in changes.as_object().expect("an object") {
        settings[key] = value.clone();
    }
    settings
}

fn start() -> Child {
    let mut trainable = command(["trainable"]);
    trainable.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary that cargo just built")
}

/// One answer for each of these lines.
fn answers(requests: &[String]) -> Vec<Value> {
    let mut child = start();
    let mut stdin = child.stdin.take().expect("piped");
    writeln!(stdin, "{}", requests.join("\n")).expect("it listens");
    drop(stdin);
    let output = child.wait_with_output().expect("a child");
    assert!(output.status.success(), "{:?}", output.status);
    let said = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(answers.len(), requests.len(), "{said}");
    answers
}

#[test]
fn a_trial_of_ray_tune_saves_goes_back_and_takes_other_settings() {
    let (_dir, saved) = scratch();
    let saved = text(&saved);
    let requests = [
        json!({"request": "resources", "config": tiny(json!({"num_workers": 3}))}),
        json!({"request": "setup", "config": tiny(json!({}))}),
        json!({"request": "step"}),
        json!({"request": "save_checkpoint", "dir": saved}),
        json!({"request": "step"}),
        json!({"request": "load_checkpoint", "dir": saved}),
        json!({"request": "step"}),
        json!({"request": "reset_config", "config": tiny(json!({"lr": 0.25}))}),
        json!({"request": "step"}),
        json!({"request": "reset_config", "config": tiny(json!({"env": "Acrobot-v1"}))}),
    ];
    let said = answers(&requests.map(|request| request.to_string()));
    assert_eq!(said[0], json!({"resources": {"CPU": 4.0}}));
    let first = &said[2]["result"];
    let ahead = &said[4]["result"];
    let again = &said[6]["result"];
    let reset = &said[8]["result"];
    let iterations = [first, ahead, again, reset].map(|result| &result["training_iteration"]);
    assert_eq!(iterations, [1, 2, 2, 1]);
    assert_ne!(first["info"], ahead["info"]);
    for key in ["info", "timesteps_total", "episodes_total", "episode_reward_mean"] {
        assert_eq!(ahead[key], again[key], "{key}");
    }
    assert_eq!(said[7], json!({"done": true}));
    assert_eq!(reset["info"]["learner"]["default_policy"]["learner_stats"]["cur_lr"], 0.25);
    assert_eq!(said[9], json!({"done": false}), "another environment needs another process");
}

#[test]
fn a_request_that_cannot_be_is_answered_by_an_error_and_the_next_one_is_served() {
    let (_dir, empty) = scratch();
    std::fs::create_dir(&empty).expect("made");
    let setup = |config: Value| json!({"request": "setup", "config": config}).to_string();
    let requests = [
        "{\"request\": \"step\"}".to_owned(),
        "step".to_owned(),
        "{\"request\": \"train\"}".to_owned(),
        setup(json!({"env": "CartPole-v1"})),
        setup(json!({"algorithm": "PPO"})),
        setup(json!({"algorithm": 3})),
        setup(json!({"algorithm": "PPO", "preset": "dqn-cartpole"})),
        setup(tiny(json!({"clip_parm": 0.1}))),
        setup(tiny(json!({"env": "CartPol-v1"}))),
        setup(tiny(json!({}))),
        json!({"request": "load_checkpoint", "dir": empty}).to_string(),
        "{\"request\": \"step\"}".to_owned(),
    ];
    let said = answers(&requests);
    for (answer, expected) in said.iter().zip([
        "ask for `setup` first",
        "`step` is no request",
        "unknown variant `train`",
        "the settings of the trial have no `algorithm`; add e.g. \"algorithm\": \"PPO\"",
        "the settings of the trial have no `env`; add e.g. \"env\": \"CartPole-v1\"",
        "`algorithm` is 3, but it must be a name in quotation marks",
        "preset dqn-cartpole is for DQN, not for PPO",
        "unknown setting `clip_parm`",
        "CartPole-v1",
    ]) {
        let error = answer["error"].as_str().expect("an error");
        assert!(error.contains(expected), "no {expected:?} in: {error}");
    }
    assert_eq!(said[9], json!({}));
    let error = said[10]["error"].as_str().expect("an error");
    assert!(error.ends_with("there is no whole checkpoint of pavlov's in it"), "{error}");
    assert_eq!(said[11]["result"]["training_iteration"], 1);
}

#[test]
fn a_trial_whose_asker_is_gone_ends_in_the_middle_of_an_iteration() {
    let mut child = start();
    let mut stdin = child.stdin.take().expect("piped");
    // An iteration of hours.
    let endless = tiny(json!({"num_sgd_iter": 1_000_000_000}));
    writeln!(stdin, "{}", json!({"request": "setup", "config": endless})).expect("it listens");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut answer = String::new();
    stdout.read_line(&mut answer).expect("an answer");
    assert_eq!(answer, "{}\n");
    writeln!(stdin, "{}", json!({"request": "step"})).expect("it listens");
    drop(stdin);
    assert!(child.try_wait().expect("a child").is_none(), "whoever asked still waits for the answer");
    drop(stdout);
    wait_for("the end", || child.try_wait().expect("a child"));
}
