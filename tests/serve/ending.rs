//! Exchanging the policy and ending, while clients ask.

#[cfg(feature = "cli")]
use std::io::{BufRead, BufReader};
#[cfg(feature = "cli")]
use std::path::Path;
#[cfg(feature = "cli")]
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pavlov::prelude::*;
use pavlov::serve::{Limits, ServeConfig};
use pavlov::trainer::Loaded;
use serde_json::json;

use super::client::{Client, Running};
use super::{numbers, pendulum, pole};
use crate::loaded::{ppo, session};

/// Serves the first policy in odd versions and the second in even ones.
fn in_turn(policies: [Loaded; 2]) -> Running {
    let count = AtomicUsize::new(0);
    Running::with(ServeConfig::default(), move || {
        Ok(policies[count.fetch_add(1, Ordering::Relaxed) % 2].clone())
    })
}

/// Tells the other threads of a test that one of them is done, or has failed.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_policy_is_exchanged_under_load_and_no_request_is_lost() {
    let other = session(ppo(|ppo| ppo.common.seed = Some(1)), "Pendulum-v1", 1);
    let policies = [pendulum(), other.into_loaded().expect("a policy to share")];
    let row = [0.3_f32, 0.4, 0.5];
    // Even versions have the second policy.
    let wanted = [&policies[1], &policies[0]].map(|policy| numbers(policy, &row)[0]);
    assert_ne!(wanted[0], wanted[1], "the policies cannot be told apart");
    let server = in_turn(policies);
    let done = AtomicBool::new(false);
    let asked = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let _done = Done(&done);
                let mut client = server.client();
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let answer = client.act(json!({"obs": row}));
                    assert_eq!(answer.status, 200, "{answer:?}");
                    let answer = answer.json();
                    let version = answer["version"].as_u64().expect("a version");
                    assert!(version >= last, "version {version} after {last}");
                    last = version;
                    let action: f32 = serde_json::from_value(answer["action"][0].clone()).expect("an action");
                    assert_eq!(action, wanted[version as usize % 2], "version {version}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for version in 2..30 {
            assert_eq!(server.handle.reload().expect("a newer policy"), version);
            let before = asked.load(Ordering::Relaxed);
            while asked.load(Ordering::Relaxed) < before + 20 && !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.metric("pavlov_serve_reloads_total{ok=\"true\"}"), 28.0);
}

#[test]
fn a_session_keeps_its_policy_until_a_second_exchange() {
    let gru = |seed| {
        ppo(move |ppo| {
            ppo.common.model.use_gru = true;
            ppo.common.seed = Some(seed);
        })
    };
    let policies =
        [0, 1].map(|seed| session(gru(seed), "Pendulum-v1", 1).into_loaded().expect("a policy to share"));
    let server = in_turn(policies);
    let mut client = server.client();
    let mut act = |begin: bool| client.act(json!({"obs": [0.1, 0.2, 0.3], "session": "a", "begin": begin}));
    assert_eq!(act(true).json()["version"], 1);
    server.handle.reload().expect("a newer policy");
    assert_eq!(act(false).json()["version"], 1);
    server.handle.reload().expect("a newer policy");
    let refused = act(false);
    assert_eq!((refused.status, refused.code().as_str()), (409, "model_changed"));
    assert_eq!(act(true).json()["version"], 3);
}

#[test]
fn a_policy_for_other_observations_is_not_exchanged() {
    let server = in_turn([pendulum(), pole()]);
    let refused = server.handle.reload().expect_err("other spaces").to_string();
    assert!(refused.contains("observation space"), "{refused}");
    let answer = server.client().act(json!({"obs": [0.1, 0.2, 0.3]}));
    assert_eq!(answer.json()["version"], 1);
    assert_eq!(server.metric("pavlov_serve_reloads_total{ok=\"false\"}"), 1.0);
}

/// Asks until the server says that it closes the connection; every request must be answered.
fn ask_until_closed(mut client: Client, asked: &AtomicUsize) {
    loop {
        let answer = client.act(json!({"obs": [0.1, 0.2, 0.3, 0.4]}));
        assert_eq!(answer.status, 200, "{answer:?}");
        asked.fetch_add(1, Ordering::Relaxed);
        if answer.closes() {
            return;
        }
    }
}

fn wait_for(asked: &AtomicUsize, count: usize) {
    while asked.load(Ordering::Relaxed) < count {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn at_the_end_everything_is_answered_and_idle_connections_are_closed() {
    let server = Running::of(&pole(), Limits::default());
    let asked = AtomicUsize::new(0);
    let mut idle = server.client();
    assert_eq!(idle.get("/readyz").status, 200);
    thread::scope(|scope| {
        for _ in 0..8 {
            let client = server.client();
            scope.spawn(|| ask_until_closed(client, &asked));
        }
        wait_for(&asked, 100);
        server.handle.end();
    });
    assert!(idle.try_read().is_none());
    server.end();
}

/// A run with one checkpoint.
#[cfg(feature = "cli")]
fn run_in(home: &Path) {
    let mut trainer = ppo(|_| ()).builder("CartPole-v1").logdir(home).build().expect("a trainer");
    trainer.train().expect("an iteration");
    trainer.save().expect("a checkpoint");
}

#[cfg(feature = "cli")]
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("the command kill").success());
}

#[cfg(feature = "cli")]
#[test]
fn the_command_reloads_at_sighup_and_answers_what_waits_at_sigterm() {
    let home = tempfile::tempdir().expect("a directory");
    run_in(home.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_pavlov"))
        .args(["serve", "--addr", "127.0.0.1:0"])
        .arg(home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let addr = line.trim_end().rsplit("http://").next().and_then(|addr| addr.parse().ok()).expect(&line);
    let mut client = Client::to(addr);
    assert_eq!(client.act(json!({"obs": [0.1, 0.2, 0.3, 0.4]})).json()["version"], 1);
    signal(&child, "-HUP");
    let mut said = BufReader::new(child.stderr.take().expect("its output")).lines();
    let mut said = || said.next().expect("a line").expect("text");
    assert!(said().contains("version 2 of the policy is served"));
    let asked = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| ask_until_closed(Client::to(addr), &asked));
        }
        wait_for(&asked, 50);
        assert_eq!(client.act(json!({"obs": [0.1, 0.2, 0.3, 0.4]})).json()["version"], 2);
        signal(&child, "-TERM");
    });
    assert!(said().contains("ending"));
    assert!(child.wait().expect("its end").success());
}

#[cfg(feature = "cli")]
#[test]
fn the_command_refuses_an_open_address_without_a_token() {
    let home = tempfile::tempdir().expect("a directory");
    run_in(home.path());
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pavlov"));
        let output = command.arg("serve").arg(home.path()).args(more).output().expect("the command");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&["--addr", "0.0.0.0:0"]);
    assert!(code == Some(2) && said.contains("--token-file"), "{said}");
    let (code, said) = run(&["--max-rows", "0"]);
    assert!(code == Some(2) && said.contains("at least 1"), "{said}");
    let (code, said) = run(&["--token-file", "/nowhere/token"]);
    assert!(code == Some(2) && said.contains("cannot read the token"), "{said}");
}
