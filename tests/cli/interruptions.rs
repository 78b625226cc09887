//! Runs that are stopped, killed or run out of disk, and how they go on.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{
    after_three_results, checkpoints, command, finish, iterations, logged, pavlov, run, scratch, signal,
    start_endless, text, train,
};

#[test]
fn ctrl_c_finishes_the_iteration_saves_and_exits_with_0_and_the_run_goes_on() {
    for sent in ["INT", "TERM"] {
        let (_dir, out) = scratch();
        let (child, stdout) = start_endless(&out, &[]);
        signal(&child, sent);
        let last = stdout.lines().map(|line| line.expect("whole lines")).last();
        let ran = finish(child).ok();
        assert!(ran.stderr.contains(&format!("pavlov resume {}", out.display())), "{}", ran.stderr);
        let results = logged(&out);
        let n = results.len() as u64;
        if let Some(line) = last {
            let printed: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(printed["training_iteration"], n);
        }
        assert_eq!(checkpoints(&out), [format!("checkpoint_{n:06}")]);

        let stop = format!("training_iteration={}", n + 1);
        let resumed = pavlov(&["resume", text(&out), "--json", "--stop", &stop]).ok();
        assert_eq!(iterations(&resumed.lines()), [n + 1]);
        assert_eq!(iterations(&logged(&out)), (1..=n + 1).collect::<Vec<_>>());
    }
}

#[test]
fn a_run_that_was_killed_goes_on_from_its_newest_checkpoint() {
    let (_dir, out) = scratch();
    let (child, stdout) = start_endless(&out, &["--checkpoint-freq", "2", "--keep-checkpoints-num", "1"]);
    signal(&child, "KILL");
    drop(stdout);
    assert_eq!(finish(child).code, None);
    let saved = checkpoints(&out);
    let newest: u64 =
        saved.last().expect("iteration 2 was saved")["checkpoint_".len()..].parse().expect("a number");

    let stop = format!("training_iteration={}", newest + 2);
    let resumed = pavlov(&["resume", text(&out), "--json", "--stop", &stop]).ok();
    assert_eq!(iterations(&resumed.lines()), [newest + 1, newest + 2]);
    assert_eq!(iterations(&logged(&out)), (1..=newest + 2).collect::<Vec<_>>());
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_whose_worker_dies_keeps_what_it_learned_unless_it_saves_anyway() {
    let rarely = ["--checkpoint-freq", "1000000"];
    let often = ["--checkpoint-freq", "2"];
    for (more, saves_anyway) in [(&[][..], false), (&rarely, false), (&often, true)] {
        let (_dir, out) = scratch();
        let mut train = command(["train", "PPO", "--env", "CartPole-v1", "--workers", "procs:2", "--json"]);
        train.args(["--set", "train_batch_size=512", "--out", text(&out)]).args(more);
        let (child, stdout) = after_three_results(&mut train);
        // The results go on until the end.
        let reader = std::thread::spawn(move || stdout.lines().count());
        let all = std::fs::read_dir("/proc").expect("Linux").flatten();
        let workers: Vec<u32> = all
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| crate::ray::parent(*pid) == Some(child.id()))
            .collect();
        assert_eq!(workers.len(), 2);
        crate::processes::signal("KILL", workers[0]);
        let ran = finish(child);
        reader.join().expect("a reader");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains(" failed: its process was killed (signal 9)"), "{}", ran.stderr);

        let n = logged(&out).len() as u64;
        let newest = if saves_anyway { n / 2 * 2 } else { n };
        assert_eq!(checkpoints(&out).last(), Some(&format!("checkpoint_{newest:06}")));
        let stop = format!("training_iteration={}", newest + 1);
        pavlov(&["resume", text(&out), "--stop", &stop]).ok();
        assert_eq!(iterations(&logged(&out)), (1..=newest + 1).collect::<Vec<_>>());
    }
}

#[test]
fn a_run_that_was_killed_before_its_first_checkpoint_starts_again_and_gives_the_same_numbers() {
    let (_dir, out) = scratch();
    let (child, stdout) = start_endless(&out, &[]);
    signal(&child, "KILL");
    drop(stdout);
    finish(child);
    let before = logged(&out);

    pavlov(&["resume", text(&out), "--quiet", "--stop", "iteration=2"])
        .refused("no `iteration`, the stop criterion; it has episode_reward_max, ");
    let resumed = pavlov(&["resume", text(&out), "--json", "--stop", "training_iteration=2"]).ok();
    assert!(resumed.stderr.contains("starts again from the beginning"), "{}", resumed.stderr);
    let results = resumed.lines();
    assert_eq!(iterations(&results), [1, 2]);
    let extended =
        pavlov(&["resume", text(&out), "--stop", "training_iteration=null", "--stop", "timesteps_total=192"]);
    assert!(extended.ok().stderr.contains("done: timesteps_total is 192"));
    assert_eq!(iterations(&logged(&out)), [1, 2, 3]);
    for key in ["hist_stats", "episode_reward_mean", "num_env_steps_trained"] {
        assert_eq!(results[1][key], before[1][key], "{key}");
    }
    let learned = "/info/learner/default_policy/learner_stats/total_loss";
    assert!(results[1].pointer(learned).is_some());
    assert_eq!(results[1].pointer(learned), before[1].pointer(learned));
}

#[test]
fn a_run_in_progress_is_not_resumed_by_a_second_process() {
    let (_dir, out) = scratch();
    let (mut child, _stdout) = start_endless(&out, &[]);
    let second = pavlov(&["resume", text(&out)]);
    child.kill().expect("the child is running");
    finish(child);
    second.refused("another process is training in");
}

#[test]
fn a_resume_names_a_broken_line_among_the_results_and_goes_on() {
    let (_dir, out) = scratch();
    run(&mut train(&out, &["--stop", "training_iteration=3"])).ok();
    let path = out.join("result.json");
    let results = std::fs::read_to_string(&path).expect("results");
    let lines: Vec<&str> = results.lines().collect();
    std::fs::write(&path, format!("{}\n{{\"a\n{}\n", lines[0], lines[2])).expect("written");
    let resumed = pavlov(&["resume", text(&out), "--stop", "training_iteration=4"]).ok();
    let named = "result.json: line 2 is not a JSON object: ";
    assert!(resumed.stderr.contains(named), "{}", resumed.stderr);
    assert!(resumed.stderr.contains("leaves damaged lines (1 in all) as they are"), "{}", resumed.stderr);
    let after = std::fs::read_to_string(&path).expect("results");
    assert_eq!(after.lines().nth(1), Some("{\"a"), "the line stays");
    assert_eq!(after.lines().count(), 4);
}

#[test]
fn a_reader_that_goes_away_ends_the_run_with_a_checkpoint_and_no_panic() {
    let (_dir, out) = scratch();
    let (child, stdout) = start_endless(&out, &[]);
    drop(stdout);
    let ran = finish(child).ok();
    assert!(ran.stderr.contains("the reader of standard output closed it"), "{}", ran.stderr);
    assert_eq!(checkpoints(&out).len(), 1);
}

#[test]
fn a_run_whose_disk_is_full_fails_with_1_and_names_the_file_and_the_checkpoint_to_go_on_from() {
    let (_dir, out) = scratch();
    // No file may grow beyond 64 blocks; the command has the signal turned into an error of `write`.
    let limited = "ulimit -f 64; exec \"$0\" \"$@\"";
    let train = train(&out, &["--checkpoint-freq", "1"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", limited]).arg(train.get_program()).args(train.get_args()).env_remove("RUST_LOG");
    let ran = run(&mut shell);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let error = ran.stderr.lines().last().expect("an error");
    assert!(error.starts_with("error: cannot write ") && error.contains(text(&out)), "{error}");
    let told = "File too large (os error 27); raise the limit on the size of files (`ulimit -f`)";
    assert!(error.ends_with(told), "{error}");
    assert!(
        ran.stderr.contains(&format!("go on from it with `pavlov resume {}`", out.display())),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_second_ctrl_c_quits_at_once() {
    let (_dir, out) = scratch();
    // run.json is there when the handler is. An iteration of minutes, so that the first Ctrl-C cannot have ended the run.
    let long = ["--set", "num_sgd_iter=10000000", "--stop", "training_iteration=1"];
    let mut child = train(&out, &long).stderr(Stdio::piped()).spawn().expect("the binary");
    while !out.join("run.json").exists() {
        assert!(child.try_wait().expect("a child").is_none(), "the run ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    signal(&child, "INT");
    // Lines about the run may come before.
    while !line.contains("Ctrl-C again quits at once") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).expect("a line"), 0, "the run ended without a word");
    }
    signal(&child, "INT");
    assert_eq!(child.wait().expect("a child").code(), Some(130));
}

#[test]
fn a_run_with_workers_in_processes_that_is_suspended_and_continued_is_as_an_undisturbed_one() {
    let (home, _) = scratch();
    let start = |name: &str| {
        let mut train =
            command(["train", "PPO", "--env", "CartPole-v1", "--seed", "0", "--num-workers", "2", "--json"]);
        for setting in [
            "workers=procs",
            "num_envs_per_worker=1",
            "train_batch_size=64",
            "sgd_minibatch_size=32",
            "num_sgd_iter=1",
            "model.fcnet_hiddens=[8]",
        ] {
            train.args(["--set", setting]);
        }
        train.args(["--stop", "training_iteration=60", "--out"]).arg(home.path().join(name));
        train
    };
    let (child, stdout) = after_three_results(&mut start("suspended"));
    std::thread::spawn(move || std::io::copy(&mut { stdout }, &mut std::io::sink()));
    for _ in 0..2 {
        signal(&child, "STOP");
        std::thread::sleep(Duration::from_millis(200));
        signal(&child, "CONT");
        std::thread::sleep(Duration::from_millis(20));
    }
    finish(child).ok();
    run(&mut start("undisturbed")).ok();
    let state = |name: &str| {
        let path = home.path().join(name).join("checkpoint_000060");
        pavlov::tune::checkpoint::state_hash(&path).expect("a whole checkpoint")
    };
    assert_eq!(state("suspended"), state("undisturbed"));
}
