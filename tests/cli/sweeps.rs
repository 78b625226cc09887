//! Sweeps of PPO as a user runs them: the command, a driver and trials that are killed, and from Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use pavlov::prelude::*;
use pavlov::trainer::rng::Stream;
use pavlov::tune::loggers::read_results;
use pavlov::tune::search::{grid_search, loguniform};
use pavlov::tune::{TrialStatus, Tuner, difference};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Trials of a few iterations of a few milliseconds.
const SWEEP: &str = r#"
algorithm = "PPO"
env = "CartPole-v1"
metric = "episode_reward_mean"
mode = "max"
num_samples = 2
seed = 5
[stop]
training_iteration = 4
[space]
seed = 0
num_workers = 0
num_envs_per_worker = 4
train_batch_size = 64
sgd_minibatch_size = 32
num_sgd_iter = 1
model = { fcnet_hiddens = [8] }
lr = { loguniform = [1e-4, 1e-2] }
clip_param = { grid_search = [0.1, 0.3] }
"#;

pub(crate) fn pavlov<'a>(args: impl IntoIterator<Item = &'a str>, dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pavlov"));
    command.args(args).current_dir(dir).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

#[track_caller]
pub(crate) fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("the binary that cargo just built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// A directory with `sweep.toml` in it: [`SWEEP`] with `more` in front.
pub(crate) fn folder(more: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("sweep.toml"), format!("{more}{SWEEP}")).expect("written");
    dir
}

#[test]
fn a_sweep_from_a_file_names_a_best_trial_that_evaluates_and_its_trials_train_alone_as_well() {
    let dir = folder("");
    let dir = dir.path();
    let trials = lines(&succeeds(&mut pavlov(["tune", "sweep.toml", "--out", "swept", "--json"], dir)));
    let clips: Vec<f64> = trials.iter().filter_map(|trial| trial["config"]["clip_param"].as_f64()).collect();
    assert_eq!(clips, [0.1, 0.3, 0.1, 0.3], "the grid twice");
    assert!(trials.iter().all(|trial| trial["status"] == "TERMINATED"));
    let reward = |trial: &Value| trial["result"]["episode_reward_mean"].as_f64().expect("a reward");
    let best = trials.iter().max_by(|a, b| reward(a).total_cmp(&reward(b))).expect("trials");

    // Nothing is left to do, so this prints what there is.
    let said = succeeds(&mut pavlov(["tune", "--resume", "swept"], dir));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let checkpoint = best["checkpoint"].as_str().expect("a checkpoint");
    assert!(said.contains(&format!("pavlov evaluate {checkpoint}")), "{said}");
    let played = lines(&succeeds(&mut pavlov(["evaluate", checkpoint, "--episodes", "2", "--json"], dir)));
    assert_eq!(played[0]["training_iteration"], 4);

    // The best trial comes first, each parameter has a column in full precision, and a file has the same.
    let id = best["trial_id"].as_str().expect("an id");
    let table: Vec<&str> = said.lines().collect();
    assert!(table[0].starts_with("trial ") && table[0].ends_with("clip_param  lr"), "{said}");
    assert!(table[1].starts_with(id) && table[1].contains(&best["config"]["lr"].to_string()), "{said}");
    let csv = fs::read_to_string(dir.join("swept/results.csv")).expect("results.csv");
    assert!(csv.starts_with("trial_id,status,episode_reward_mean,config/clip_param,config/lr,"), "{csv}");
    assert!(csv.lines().nth(1).expect("a row").starts_with(id), "{csv}");

    // The sweep stands for its best trial.
    let of_sweep = lines(&succeeds(&mut pavlov(["evaluate", "swept", "--episodes", "2", "--json"], dir)));
    assert_eq!(of_sweep[0]["episode_rewards"], played[0]["episode_rewards"]);
    assert!(of_sweep[0]["checkpoint"].as_str().expect("a path").contains(id));

    succeeds(&mut pavlov(["trial", "sweep.toml", "--number", "3", "--out", "alone", "--quiet"], dir));
    let swept = PathBuf::from(trials[3]["path"].as_str().expect("a path"));
    assert_same(&results(&swept), &results(&dir.join("alone")));

    // A trial that has ended goes on alone, to the stop criteria of the sweep unless others are given.
    let resume = ["resume", swept.to_str().expect("text"), "--json", "--stop", "training_iteration=6"];
    let more = lines(&succeeds(&mut pavlov(resume, dir)));
    assert_eq!(more.iter().map(|result| &result["training_iteration"]).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(results(&swept).len(), 6);
}

#[test]
fn a_mutation_of_a_setting_that_a_checkpoint_fixes_is_refused() {
    let dir = folder("");
    let dir = dir.path();
    let mutated = "\n[scheduler]\ntype = \"PBT\"\nperturbation_interval = 2\n[scheduler.hyperparam_mutations]\nseed = [1, 2]\n";
    fs::write(dir.join("pbt.toml"), format!("{SWEEP}{mutated}")).expect("written");
    let output = pavlov(["tune", "pbt.toml", "--out", "swept"], dir).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = "`scheduler.hyperparam_mutations.seed`: a trial that copies another one goes on from its checkpoint, which fixes";
    assert!(said.contains(told) && said.contains("draw it once for each trial in `space`"), "{said}");
    assert!(!dir.join("swept").exists());
}

#[test]
fn a_trial_of_a_sweep_that_goes_on_is_not_resumed_alone() {
    let dir = folder("");
    let dir = dir.path();
    succeeds(&mut pavlov(["tune", "sweep.toml", "--out", "swept", "--quiet"], dir));
    let trial = trials(&dir.join("swept")).remove(0);
    // As a sweep that was killed has it: nothing says that a trial has ended.
    let journal = dir.join("swept/journal.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    let ended: Vec<&str> = text.lines().filter(|line| !line.contains("\"completed\"")).collect();
    fs::write(&journal, ended.join("\n") + "\n").expect("written");
    let output = pavlov(["resume", trial.to_str().expect("text")], dir).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("has not ended") && said.contains("pavlov tune --resume"), "{said}");
    assert!(!trial.join("run.json").exists());
}

#[test]
fn a_program_of_another_name_says_its_own_command() {
    let dir = folder("");
    let dir = dir.path();
    let mine = dir.join("mine");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pavlov"), &mine).expect("a link");
    let mut tune = Command::new(&mine);
    let said = succeeds(tune.args(["tune", "sweep.toml", "--out", "swept"]).current_dir(dir));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(&format!("evaluate it:  {} evaluate ", mine.display())), "{said}");
}

#[test]
fn a_misspelt_setting_of_the_space_is_refused_before_any_trial_starts() {
    let dir = folder("");
    let file = dir.path().join("sweep.toml");
    fs::write(&file, SWEEP.replace("clip_param", "clip_parm")).expect("written");
    let output = pavlov(["tune", "sweep.toml", "--out", "swept"], dir.path()).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("unknown setting `clip_parm`") && said.contains("nearest: `clip_param`"), "{said}");
    assert!(!dir.path().join("swept").exists());
}

#[test]
fn a_refusal_of_a_sweep_file_names_the_line() {
    for (from, to, expected) in [
        ("num_samples = 2", "num_sample = 2", "sweep.toml, line 6: unknown setting `num_sample`"),
        ("mode = \"max\"", "mode = \"best\"", "sweep.toml, line 5: `mode` is \"best\""),
        ("= 4\n[space]", "= \"four\"\n[space]", "sweep.toml, line 9: `stop.training_iteration` is \"four\""),
        // The sweep has a seed too, in line 7.
        ("[space]\nseed = 0", "[space]\nseed = -1", "sweep.toml, line 11: `seed` is -1"),
        ("[8] }", "[8.5] }", "sweep.toml, line 17: `model.fcnet_hiddens[0]` is 8.5"),
        ("[1e-4, 1e-2]", "[1e-2, 1e-4]", "sweep.toml, line 18: `lr` is"),
        (
            "[space]",
            "[scheduler]\ntype = \"ASHA\"\ngrace_perod = 2\n[space]",
            "sweep.toml, line 12: unknown setting",
        ),
    ] {
        let dir = folder("");
        let text = SWEEP.replacen(from, to, 1);
        assert_ne!(text, SWEEP);
        fs::write(dir.path().join("sweep.toml"), text).expect("written");
        let output = pavlov(["tune", "sweep.toml", "--out", "swept"], dir.path()).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "no {expected:?} in: {said}");
    }
}

#[test]
fn ten_lines_of_rust_sweep_ppo_and_its_best_checkpoint_restores() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut ppo = Ppo { sgd_minibatch_size: 32, num_sgd_iter: 1, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, train_batch_size: 64, seed: Some(0), ..ppo.common };
    let space = json!({"lr": loguniform(1e-4, 1e-2), "clip_param": grid_search([0.1, 0.3])});
    let grid = Tuner::new(ppo.as_trainable("CartPole-v1"))
        .space(space)
        .maximize("episode_reward_mean")
        .stop("training_iteration", 2)
        .storage_path(dir.path())
        .fit()
        .expect("a sweep");
    assert_eq!((grid.len(), grid.num_errors()), (2, 0));
    let best = grid.best().expect("a best trial");
    assert_eq!(best.status, TrialStatus::Terminated);
    let clip_param = best.config["clip_param"].as_f64().expect("a number");
    let mut again =
        Ppo { clip_param, ..ppo }.builder("CartPole-v1").loggers(LoggerChoice::None).build().expect("PPO");
    again.restore(best.checkpoint.as_ref().expect("a checkpoint")).expect("its own checkpoint");
    assert_eq!(again.training_iteration(), 2);
}

#[test]
fn a_sweep_searches_the_settings_of_one_of_several_policies() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut ppo = Ppo { sgd_minibatch_size: 25, num_sgd_iter: 1, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, train_batch_size: 50, seed: Some(0), ..ppo.common };
    let multi = &mut ppo.common.multiagent;
    multi.policies = ["first", "others"].map(|id| (id.to_owned(), Config::new())).into();
    multi.policy_mapping_fn = [("agent_0", "first"), ("agent_*", "others")].into();
    let space = json!({"multiagent": {"policies": {"first": {"lr": grid_search([1e-3, 2e-3])}}}});
    let grid = Tuner::new(ppo.as_trainable("simple_spread_v3"))
        .space(space)
        .stop("training_iteration", 1)
        .storage_path(dir.path())
        .fit()
        .expect("a sweep");
    assert_eq!((grid.len(), grid.num_errors()), (2, 0));
    let rates = grid.iter().map(|trial| {
        let result = trial.metrics.as_ref().expect("a result");
        result["info"]["learner"]["first"]["learner_stats"]["cur_lr"].as_f64().expect("a number")
    });
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_by(f64::total_cmp);
    assert_eq!(rates, [1e-3, 2e-3]);
}

#[test]
fn a_sweep_whose_driver_and_trials_are_killed_ends_as_the_undisturbed_one() {
    const MORE: &str = "executor = \"processes\"\n";
    let dir = folder(MORE);
    let dir = dir.path();
    let sixteen = |out: &'static str| ["tune", "sweep.toml", "--out", out, "--num-samples", "8", "--quiet"];
    succeeds(&mut pavlov(sixteen("calm"), dir));

    let mut moments = Stream::new(11, "moments", 0);
    let mut driver = background(pavlov(sixteen("killed"), dir));
    // A driver that is killed before it has begun leaves nothing to resume.
    while !dir.join("killed/sweep.toml").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(200 + moments.below(600)));
        // Now and then one of its trials first, which the driver takes for a failure unless it is killed too.
        if let Some(trial) = children_of(driver.id()).first() {
            signal(*trial, "-KILL");
        }
        signal(driver.id(), "-KILL");
        driver.wait().expect("it was killed or had ended");
        driver = background(pavlov(["tune", "--resume", "killed", "--resume-errored", "--quiet"], dir));
    }
    assert!(driver.wait().expect("it ends").success());

    let calm = trials(&dir.join("calm"));
    let killed = trials(&dir.join("killed"));
    assert_eq!((calm.len(), killed.len()), (16, 16));
    for (calm, killed) in calm.iter().zip(&killed) {
        assert_same(&results(calm), &results(killed));
    }
    let journal = fs::read_to_string(dir.join("killed/journal.jsonl")).expect("a journal");
    let completed: Vec<&str> = journal.lines().filter(|line| line.contains("\"completed\"")).collect();
    assert_eq!(completed.len(), 16, "each trial completed once");
}

pub(crate) fn background(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary that cargo just built")
}

fn children_of(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn signal(process: u32, name: &str) {
    // It may have ended by itself.
    let _ = Command::new("kill").args([name, &process.to_string()]).stderr(Stdio::null()).status();
}

/// The trials' directories in the order of their numbers.
pub(crate) fn trials(experiment: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(experiment).expect("an experiment");
    let mut dirs: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|p| p.is_dir()).collect();
    dirs.sort();
    dirs
}

pub(crate) fn results(dir: &Path) -> Vec<Metrics> {
    read_results(dir).expect("results")
}

#[track_caller]
pub(crate) fn assert_same(left: &[Metrics], right: &[Metrics]) {
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        let mut left = left.clone();
        let mut right = right.clone();
        // Their own names.
        for result in [&mut left, &mut right] {
            result.remove("trial_id");
        }
        assert_eq!(difference(&left, &right), None);
    }
}

#[test]
fn a_sweep_goes_on_when_the_reader_of_standard_error_has_gone() {
    let dir = folder("");
    let mut sweep = pavlov(["tune", "sweep.toml", "--out", "sweep"], dir.path());
    let mut child = sweep.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    drop(child.stderr.take());
    let output = child.wait_with_output().expect("a child");
    assert!(output.status.success(), "{:?}", output.status);
    let summary = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(summary.contains("best trial:"), "{summary}");
}

/// What a terminal shows of these bytes: lines, with the codes "cursor up" and "erase what follows" carried out.
fn screen(bytes: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut row = 0;
    let mut rest = bytes;
    while let Some(at) = rest.find(['\n', '\u{1b}']) {
        lines[row] += rest[..at].trim_end_matches('\r');
        if rest[at..].starts_with('\n') {
            row += 1;
            lines.resize(lines.len().max(row + 1), String::new());
            rest = &rest[at + 1..];
            continue;
        }
        let code = &rest[at + 2..];
        let end = code.find(|c: char| c.is_ascii_alphabetic()).expect("a whole code");
        match &code[end..=end] {
            "A" => row -= code[..end].parse::<usize>().expect("a number of lines"),
            "J" => lines.truncate(row + 1),
            _ => {}
        }
        if &code[end..=end] == "J" {
            lines[row].clear();
        }
        rest = &code[end + 1..];
    }
    lines
}

#[test]
fn what_is_said_during_a_sweep_stands_above_its_table_and_tears_it_nowhere() {
    let dir = folder("max_concurrent_trials = 1\n");
    let file = dir.path().join("sweep.toml");
    let text = SWEEP
        .replace("training_iteration = 4", "training_iteration = 60")
        .replace("train_batch_size = 64", "train_batch_size = 1024")
        .replace("lr = { loguniform = [1e-4, 1e-2] }", "lr = { grid_search = [1e-3, -1.0, 2e-3] }");
    assert!(
        text.contains("= 60") && text.contains("= 1024") && text.contains("grid_search = [1e-3"),
        "{text}"
    );
    fs::write(&file, format!("max_concurrent_trials = 1\n{text}")).expect("written");
    let command =
        format!("stty rows 50 cols 300; '{}' tune sweep.toml --out swept", env!("CARGO_BIN_EXE_pavlov"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(dir.path()).env("TERM", "xterm");
    let output = script.env_remove("RUST_LOG").stdin(Stdio::null()).output().expect("script, of util-linux");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = shown.find("\u{1b}[J").expect("a table that was drawn over");
    assert!(shown[first..].contains(" failed, "), "a failure after the first table: {shown}");
    let lines = screen(&shown);
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    let failures = lines.iter().filter(|line| line.starts_with("trial ") && line.contains(" failed, "));
    assert_eq!(failures.count(), 4, "{lines:#?}");
    assert_eq!(count("  alone: "), 4, "{lines:#?}");
    // The last live table, and the table that the command prints at its end.
    assert_eq!(count("trial        status"), 2, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains(" finished, 4 failed; ")).count(), 1, "{lines:#?}");
}
