//! A directory is data: what it names is run, opened or written only once the user says so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pavlov::tune::checkpoint;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{pavlov, run, train};

/// A program that leaves the file `ran` beside it and fails.
fn program(dir: &Path) -> PathBuf {
    let program = dir.join("program");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\nexit 3\n", dir.join("ran").display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Changes the run file of a run without a checkpoint, as another person could have written it.
fn write_run(dir: &Path, change: impl FnOnce(&mut Value)) {
    run(&mut train(dir, &["--stop", "training_iteration=1", "--checkpoint-at-end", "false"])).ok();
    let path = dir.join("run.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut file);
    fs::write(&path, file.to_string()).unwrap();
}

#[test]
fn resume_runs_the_interpreter_that_a_directory_names_only_when_it_is_trusted() {
    let home = TempDir::new().unwrap();
    let program = program(home.path());
    let dir = home.path().join("run");
    write_run(&dir, |file| {
        file["env"] = "py:CartPole-v1".into();
        file["config"]["env_config"] = json!({"python": program});
    });
    let dir = dir.to_str().unwrap();
    let expected = format!("would run the program {program:?} (`env_config.python`); if you know who made");
    pavlov(&["resume", dir]).refused(&expected);
    assert!(!home.path().join("ran").exists());
    let message = pavlov(&["resume", dir, "--trust"]).stderr;
    assert!(message.contains("exited with code 3"), "{message}");
    assert!(home.path().join("ran").exists());
    // The user's own environment names it too.
    let own = run(super::command(["resume", dir]).env("PAVLOV_PYTHON", &program)).stderr;
    assert!(own.contains("exited with code 3"), "{own}");
}

#[test]
fn resume_brings_a_run_to_a_url_only_when_the_user_names_it() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("run");
    let place = home.path().join("elsewhere");
    let url = format!("file://{}", place.display());
    write_run(&dir, |file| file["remote_checkpoint_dir"] = url.as_str().into());
    let expected = format!("would bring the run to {url:?} (`remote_checkpoint_dir`)");
    pavlov(&["resume", dir.to_str().unwrap()]).refused(&expected);
    assert!(!place.exists());
}

#[test]
fn evaluate_runs_the_interpreter_that_a_checkpoint_names_only_when_it_is_trusted() {
    let home = TempDir::new().unwrap();
    let program = program(home.path());
    let metadata = json!({
        "experiment_id": "0", "iteration": 1, "time_total_s": 0.0,
        "config": {"env": "py:CartPole-v1", "env_config": {"python": program}},
    });
    let saved = checkpoint::write(&home.path().join("checkpoint_000001"), "PPO", |dir| {
        fs::write(dir.join("metadata.json"), metadata.to_string()).unwrap();
        Ok(())
    });
    let saved = saved.unwrap();
    let saved = saved.to_str().unwrap();
    pavlov(&["evaluate", saved]).refused("would run the program");
    assert!(!home.path().join("ran").exists());
    let named = format!("env_config.python={}", program.display());
    let message = pavlov(&["evaluate", saved, "--set", &named]).stderr;
    assert!(message.contains("exited with code 3"), "{message}");
}

#[test]
fn a_sweep_is_resumed_with_an_interpreter_of_its_own_only_when_it_is_trusted() {
    let home = TempDir::new().unwrap();
    let text = "algorithm = \"PPO\"\nenv = \"py:CartPole-v1\"\n[space.env_config]\npython = \"./program\"\n";
    fs::write(home.path().join("sweep.toml"), text).unwrap();
    let dir = home.path().to_str().unwrap();
    pavlov(&["tune", "--resume", dir])
        .refused(r#"would run the program "./program" (`space.env_config.python`)"#);
    pavlov(&["tune", "--resume", dir, "--trust"]).refused("there is no sweep in it");
}

#[test]
fn a_pipe_in_the_place_of_a_file_of_a_run_is_refused_and_not_waited_for() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("run");
    run(&mut train(&dir, &["--stop", "training_iteration=1"])).ok();
    for name in ["result.json", "run.json"] {
        let path = dir.join(name);
        let kept = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let ran = pavlov(&["resume", dir.to_str().unwrap(), "--stop", "training_iteration=2"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let expected = format!("{name}: it is no plain file; put a plain file there");
        assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
        fs::remove_file(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
}

#[test]
fn export_takes_trust_and_asks_for_it_where_it_makes_the_environment() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("run");
    run(&mut train(&dir, &["--stop", "training_iteration=1"])).ok();
    let file = home.path().join("pole.c");
    let export = |of: &Path, more: &[&str]| {
        let args = ["export", of.to_str().unwrap(), "--out", file.to_str().unwrap()];
        pavlov(&[&args[..], more].concat())
    };
    export(&dir, &["--trust"]).ok();
    // The agreement of 8 bits is measured in the environment.
    export(&dir, &["--bits", "8"]).ok();
    let saved = dir.join("checkpoint_000001");
    let mut metadata: Value =
        serde_json::from_slice(&fs::read(saved.join("metadata.json")).unwrap()).unwrap();
    metadata["config"]["env_config"] = json!({"file": "/etc/passwd"});
    let theirs = checkpoint::write(&home.path().join("checkpoint_000001"), "PPO", |to| {
        for entry in
            fs::read_dir(&saved).unwrap().flatten().filter(|entry| entry.file_name() != "manifest.json")
        {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        fs::write(to.join("metadata.json"), metadata.to_string()).unwrap();
        Ok(())
    });
    let theirs = theirs.unwrap();
    export(&theirs, &["--bits", "8"]).refused("would open \"/etc/passwd\" (`env_config.file`)");
    export(&theirs, &[]).ok();
}
