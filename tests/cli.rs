//! The command `pavlov` as a user meets it: output, exit codes, errors, and runs that are stopped, killed and resumed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

mod trust;

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
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
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

#[test]
fn json_prints_one_object_per_result_and_nothing_else_and_the_run_is_evaluated_and_extended() {
    let (dir, out) = scratch();
    let stop = ["--json", "--stop", "training_iteration=3", "--checkpoint-freq", "2"];
    let ran = run(&mut train(&out, &stop)).ok();
    assert_eq!(iterations(&ran.lines()), [1, 2, 3]);
    assert_eq!(ran.lines()[2]["timesteps_total"], 192);
    assert_eq!(checkpoints(&out), ["checkpoint_000002", "checkpoint_000003"]);
    for hint in ["done: training_iteration is 3", "pavlov evaluate", "pavlov resume"] {
        assert!(ran.stderr.contains(hint), "no {hint:?} in: {}", ran.stderr);
    }

    let gif = dir.path().join("pole.gif");
    let args = ["evaluate", text(&out), "--episodes", "3", "--seed", "5", "--json", "--render", text(&gif)];
    let evaluated = pavlov(&args).ok();
    let [object] = evaluated.lines().try_into().expect("one object");
    assert_eq!((object["episodes"].as_u64(), object["seed"].as_u64()), (Some(3), Some(5)));
    assert_eq!(object["training_iteration"], 3);
    let returns: Vec<f64> =
        object["episode_rewards"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert_eq!(returns.len(), 3);
    // A step of CartPole gives 1: the length of an episode is its return.
    assert_eq!(object["episode_reward_mean"], returns.iter().sum::<f64>() / 3.0);
    assert_eq!(object["episode_len_mean"], object["episode_reward_mean"]);
    assert_eq!(pavlov(&args).ok().stdout, evaluated.stdout, "the same seed plays the same episodes");

    let file = std::fs::File::open(&gif).expect("the GIF");
    let mut decoder = gif::DecodeOptions::new().read_info(file).expect("a GIF");
    assert_eq!((decoder.width(), decoder.height()), (600, 400));
    let mut frames = 0;
    while decoder.next_frame_info().expect("a frame").is_some() {
        frames += 1;
    }
    assert_eq!(frames, returns[0] as u64, "one picture per step of the first episode");

    let short = [&args[..], &["--max-frames", "2"]].concat();
    let said = pavlov(&short).ok().stderr;
    assert!(said.contains("holds the first 2 of the ") && said.contains("--max-frames"), "{said}");

    let met = pavlov(&["resume", text(&out)]).ok();
    assert!(met.stderr.contains("nothing to do: training_iteration is 3"), "{}", met.stderr);
    let more = pavlov(&["resume", text(&out), "--stop", "training_iteration=5", "--json"]).ok();
    assert_eq!(iterations(&more.lines()), [4, 5]);
    assert_eq!(iterations(&logged(&out)), [1, 2, 3, 4, 5]);

    run(&mut train(&out, &stop)).refused("holds a run already; continue it with `pavlov resume");
}

#[test]
fn wrappers_are_set_on_the_command_line_and_in_a_file_and_evaluation_uses_them() {
    let (dir, out) = scratch();
    let file = dir.path().join("wrappers.toml");
    std::fs::write(&file, "wrappers = [\"TimeLimit(5)\", { name = \"FrameStack\", stack_size = 2 }]\n")
        .unwrap();
    run(&mut train(&out, &["--config", text(&file), "--stop", "training_iteration=1"])).ok();
    let evaluated = pavlov(&["evaluate", text(&out), "--episodes", "2", "--json"]).ok();
    assert_eq!(evaluated.lines()[0]["episode_len_mean"], 5.0);
    let more = pavlov(&["resume", text(&out), "--stop", "training_iteration=2", "--json"]).ok();
    assert_eq!(more.lines()[0]["config"]["wrappers"], serde_json::json!(["TimeLimit(5)", "FrameStack(2)"]));
    let args = ["config", "show", "PPO", "--env", "CartPole-v1", "--set", "wrappers=[\"FrameStak(4)\"]"];
    pavlov(&args).refused("no wrapper \"FrameStak\"; nearest: FrameStack");
}

#[test]
fn a_run_is_exported_to_a_file_that_acts_and_other_places_are_refused() {
    let (dir, out) = scratch();
    let filter = ["--set", "observation_filter=MeanStdFilter", "--stop", "training_iteration=2"];
    run(&mut train(&out, &filter)).ok();
    let file = dir.path().join("pole.pt");
    let ran = pavlov(&["export", text(&out), "--out", text(&file)]).ok();
    assert!(ran.stdout.contains("pole.pt: the policy of ") && ran.stdout.contains("from rows of Box("));
    let module = pavlov::torch::CModule::load(&file).expect("a module");
    let logits = module.forward_ts(&[pavlov::torch::Tensor::from_slice(&[0.1_f32; 8]).view([2, 4])]);
    assert_eq!(logits.expect("logits").size(), [2, 2]);
    let place = dir.path().join("none").join("pole.pt");
    pavlov(&["export", text(&out), "--out", text(&place)]).refused("there is no directory");
    pavlov(&["export", text(dir.path()), "--out", text(&file)]).refused("no whole checkpoint");
}

#[test]
fn a_run_that_was_evaluated_beside_training_is_evaluated_too() {
    let (_dir, out) = scratch();
    let beside =
        ["evaluation_parallel_to_training=true", "evaluation_num_workers=1", "evaluation_duration=auto"];
    let sets = beside.iter().flat_map(|set| ["--set", set]);
    let more: Vec<&str> = ["--stop", "training_iteration=1"].into_iter().chain(sets).collect();
    run(&mut train(&out, &more)).ok();
    let evaluated = pavlov(&["evaluate", text(&out), "--episodes", "2", "--json"]).ok();
    assert_eq!(evaluated.lines()[0]["episodes"], 2);
}

#[test]
fn an_environment_with_several_agents_is_trained_resumed_and_evaluated_by_its_id() {
    let (_dir, out) = scratch();
    let sets = ["env_config.N=2", "num_workers=0", "train_batch_size=50", "sgd_minibatch_size=50"];
    let mut first = command(["train", "PPO", "--env", "simple_spread_v3", "--stop", "training_iteration=1"]);
    first.args(sets.iter().flat_map(|set| ["--set", set])).args(["--json", "--out"]).arg(&out);
    assert_eq!(run(&mut first).ok().lines()[0]["num_agent_steps_sampled"], 100);
    pavlov(&["resume", text(&out), "--stop", "training_iteration=2"]).ok();
    let evaluated = pavlov(&["evaluate", text(&out), "--episodes", "2", "--json"]).ok();
    assert_eq!(evaluated.lines()[0]["training_iteration"], 2);
    assert_eq!(evaluated.lines()[0]["episode_len_mean"], 25.0);
}

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
fn a_reader_that_goes_away_ends_the_run_with_a_checkpoint_and_no_panic() {
    let (_dir, out) = scratch();
    let (child, stdout) = start_endless(&out, &[]);
    drop(stdout);
    let ran = finish(child).ok();
    assert!(ran.stderr.contains("the reader of standard output closed it"), "{}", ran.stderr);
    assert_eq!(checkpoints(&out).len(), 1);
}

#[test]
fn a_misspelt_stop_criterion_is_refused_with_the_nearest_and_leaves_no_run_behind() {
    let (_dir, out) = scratch();
    run(&mut train(&out, &["--stop", "timestep_total=100"]))
        .refused("no `timestep_total`, the stop criterion; nearest: `timesteps_total`");
    assert!(!out.exists());
    run(&mut train(&out, &["--stop", "evaluation.episode_reward_mean=1"]))
        .refused("needs evaluations; ask for them with --set evaluation_interval=N");
    run(&mut train(&out, &["--stop", "training_iteration=many"])).refused("it must be a number");
}

#[test]
fn a_nested_stop_criterion_may_be_written_with_dots_or_slashes() {
    for key in ["info.num_env_steps_trained", "info/num_env_steps_trained"] {
        let (_dir, out) = scratch();
        let ran = run(&mut train(&out, &["--json", "--stop", &format!("{key}=128")])).ok();
        assert_eq!(iterations(&ran.lines()), [1, 2]);
    }
}

#[test]
fn progress_goes_to_standard_error_and_quiet_is_silent() {
    let (_dir, out) = scratch();
    let ran = run(&mut train(&out, &["--stop", "training_iteration=2"])).ok();
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("iteration 2, 128 steps, "), "{}", ran.stderr);
    let (_dir, out) = scratch();
    let ran = run(&mut train(&out, &["--stop", "training_iteration=2", "--quiet"])).ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn profile_ends_with_a_table_of_phases_and_a_verdict_that_names_the_longest() {
    let (_dir, out) = scratch();
    // A heavy learner: 1,000 passes over each batch.
    let heavy = ["--set", "num_sgd_iter=1000", "--stop", "training_iteration=2"];
    let more = [heavy.as_slice(), &["--profile", "--quiet", "--json"]].concat();
    let ran = run(&mut train(&out, &more)).ok();
    assert_eq!(iterations(&ran.lines()), [1, 2], "standard output holds results only");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let phases = ["env", "act", "postprocess", "wait", "learn", "sync", "evaluate", "log", "other", "total"];
    assert_eq!(lines.len(), 1 + phases.len() + 1, "{}", ran.stderr);
    let (mut seconds, mut shares) = (0.0, 0.0);
    for (line, phase) in lines[1..].iter().zip(phases) {
        let [name, time, share, "%"] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        assert_eq!(name, phase);
        let (time, share): (f64, f64) = (time.parse().expect(line), share.parse().expect(line));
        match phase {
            // Nine parts, each rounded to half of the last digit.
            "total" => {
                assert!((seconds - time).abs() < 1e-5 && (shares - share).abs() < 1.0, "{}", ran.stderr)
            }
            _ => (seconds, shares) = (seconds + time, shares + share),
        }
    }
    assert!(lines[lines.len() - 1].starts_with("learner-bound, "), "{}", ran.stderr);
}

#[test]
fn names_that_do_not_exist_are_refused_with_the_nearest() {
    pavlov(&["train", "PPOO", "--env", "CartPole-v1"]).refused(r#"no algorithm "PPOO"; nearest: PPO"#);
    pavlov(&["train", "ppo", "--env", "CartPol-v1"])
        .refused(r#"no environment "CartPol-v1"; nearest: CartPole-v1"#);
    pavlov(&["train", "PPO", "--env", "simple_spread_v2"])
        .refused(r#"no environment "simple_spread_v2"; nearest: simple_spread_v3"#);
    pavlov(&["train", "PPO", "--preset", "ppo-cartpol"])
        .refused(r#"no preset "ppo-cartpol"; nearest: ppo-cartpole"#);
    pavlov(&["train", "DQN", "--preset", "ppo-cartpole"])
        .refused("preset ppo-cartpole is for PPO, not for DQN");
    pavlov(&["train", "PPO"]).refused("no environment; give one with --env");
    let env = ["train", "PPO", "--env", "CartPole-v1", "--set"];
    let with = |assignment| pavlov(&[env.as_slice(), &[assignment]].concat());
    with("gama=0.9").refused("unknown setting `gama` (from --set); nearest: `gamma`");
    with("lr=fast").refused(r#"`lr` is "fast", but it must be a number"#);
    with("seed=-1").refused("`seed` is -1, but it must be a whole number, 0 or more");
    with("gamma=2").refused("`gamma` is 2, but it must be in 0..=1");
    with("gamma=high").refused(r#"`gamma` is "high", but it must be a number"#);
    with("gamma").refused("write it as key=value");
    with("minibatch_size=64").refused("`minibatch_size` is 64, but its name here is `sgd_minibatch_size`");
    with("num_env_runners=4").refused("its name here is `num_workers`");
    with("lambda_=0.9").refused("its name here is `lambda`");
    pavlov(&["config", "show", "PPO", "--env", "CartPole-v1", "--set", "framework=torch"]).ok();
    with("eager_tracing=true").refused("has no meaning here: it belongs to TensorFlow");
    with("env_config.lenght=1").refused("no setting `lenght`");
}

#[test]
fn usage_that_clap_refuses_and_help_have_their_codes() {
    assert_eq!(pavlov(&["train"]).code, Some(2));
    assert_eq!(pavlov(&["trian"]).code, Some(2));
    assert_eq!(pavlov(&["evaluate", "x", "--episodes", "0"]).code, Some(2));
    for help in [vec!["--help"], vec!["train", "--help"], vec!["config", "show", "--help"]] {
        assert!(pavlov(&help).ok().stdout.contains("Example:"));
    }
}

#[test]
fn directories_that_cannot_be_used_are_refused_with_the_way_out() {
    let (dir, out) = scratch();
    pavlov(&["resume", text(&out)]).refused("there is no such directory");
    pavlov(&["evaluate", text(&out)]).refused("there is no such directory");
    pavlov(&["resume", text(dir.path())]).refused("this is no run of `pavlov train`");
    pavlov(&["evaluate", text(dir.path())]).refused("there is no whole checkpoint in it");
    std::fs::write(dir.path().join("thesis.tex"), "years of work").expect("a file");
    run(&mut train(dir.path(), &[])).refused("is not empty");

    run(&mut train(&out, &["--quiet", "--stop", "training_iteration=1"])).ok();
    let checkpoint = out.join("checkpoint_000001");
    pavlov(&["resume", text(&checkpoint)])
        .refused(&format!("resume it with `pavlov resume {}`", out.display()));
    let missing = out.join("no/pole.gif");
    pavlov(&["evaluate", text(&out), "--render", text(&missing)]).refused("there is no directory");
    pavlov(&["evaluate", text(&out), "--render", "pole.mp4"]).refused("its name must end in .gif");
    let manifest = checkpoint.join("manifest.json");
    let whole = std::fs::read_to_string(&manifest).expect("the manifest");
    std::fs::write(&manifest, whole.replace("PPO", "DQN")).expect("the manifest");
    pavlov(&["evaluate", text(&checkpoint)]).refused("manifest.json: it is damaged");
}

#[test]
fn a_damaged_checkpoint_is_refused_by_name_and_a_run_goes_on_from_the_one_before() {
    let (_dir, out) = scratch();
    run(&mut train(&out, &["--quiet", "--checkpoint-freq", "1", "--stop", "training_iteration=2"])).ok();
    let damaged = out.join("checkpoint_000002");
    std::fs::write(damaged.join("settings.json"), "{").expect("a file of the checkpoint");
    pavlov(&["evaluate", text(&damaged)]).refused("settings.json has 1 bytes instead of");
    let evaluated = pavlov(&["evaluate", text(&out), "--json"]).ok();
    assert_eq!(evaluated.lines()[0]["training_iteration"], 1);
    assert!(evaluated.stderr.contains("WARN skipped: checkpoint"), "{}", evaluated.stderr);
    let resumed = pavlov(&["resume", text(&out), "--json"]).ok();
    assert_eq!(iterations(&resumed.lines()), [2], "iteration 2 is trained again");
}

#[test]
fn a_run_whose_disk_is_full_fails_with_1_and_names_the_file_and_the_checkpoint_to_go_on_from() {
    let (_dir, out) = scratch();
    // No file may grow beyond 64 blocks; ignoring the signal turns that into an error of `write`.
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let train = train(&out, &["--checkpoint-freq", "1"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", limited]).arg(train.get_program()).args(train.get_args()).env_remove("RUST_LOG");
    let ran = run(&mut shell);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let error = ran.stderr.lines().last().expect("an error");
    assert!(error.starts_with("error: cannot write ") && error.contains(text(&out)), "{error}");
    assert!(error.ends_with("File too large (os error 27)"), "{error}");
    assert!(
        ran.stderr.contains(&format!("go on from it with `pavlov resume {}`", out.display())),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_setting_that_a_preset_schedules_is_refused_with_the_line_of_its_file() {
    let (dir, _) = scratch();
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, "gamma = 0.9\nlr = 0.01\n").expect("a file");
    let show = ["config", "show", "PPO", "--preset", "ppo-cartpole", "--config", text(&file)];
    pavlov(&show).refused("mine.toml, line 2: `lr` is 0.01, but it has no effect");
    pavlov(&[show.as_slice(), &["--set", "lr_schedule=null"]].concat()).ok();
}

#[test]
fn config_show_says_where_each_setting_comes_from_and_how_a_batch_is_made() {
    let (dir, _) = scratch();
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, "lambda = 0.91\ngamma = 0.5\ntrain_batch_size = 96\n").expect("a file");
    let args = [
        [
            "config",
            "show",
            "PPO",
            "--env",
            "CartPole-v1",
            "--preset",
            "ppo-cartpole",
            "--config",
            text(&file),
        ]
        .as_slice(),
        &["--set", "gamma=0.9", "--set", "sgd_minibatch_size=32", "--set", "rollout_fragment_length=7"],
        &["--set", "num_envs_per_worker=3", "--num-workers", "2", "--seed", "4"],
    ]
    .concat();
    let shown = pavlov(&[args.as_slice(), &["--json"]].concat()).ok();
    let [object] = shown.lines().try_into().expect("one object");
    let of = |key: &str| (object["config"][key].clone(), object["origins"][key].as_str().expect("an origin"));
    assert_eq!(of("gamma"), (0.9.into(), "--set"));
    assert_eq!(of("lambda"), (0.91.into(), text(&file)));
    assert_eq!(of("num_workers"), (2.into(), "--num-workers"));
    assert_eq!(of("seed"), (4.into(), "--seed"));
    assert_eq!(of("batch_mode"), ("truncate_episodes".into(), "default"));
    assert_eq!(of("num_sgd_iter").1, "preset ppo-cartpole");
    // 96 rows / (2 workers x 3 copies) = 16 steps of each copy, of which 7 is no divisor.
    assert_eq!(of("rollout_fragment_length"), (16.into(), "fitted"));
    let arithmetic = "2 worker(s) x 3 env(s) x 16 steps = 96 steps per round; 1 round(s) = a batch of 96";
    assert_eq!(object["batch_arithmetic"], arithmetic);

    let replay = pavlov(&["config", "show", "DQN", "--env", "CartPole-v1", "--json"]).ok();
    assert_eq!(
        replay.lines()[0]["batch_arithmetic"],
        Value::Null,
        "batches of DQN come from a replay buffer"
    );

    let table = pavlov(&args).ok().stdout;
    assert!(table.contains(arithmetic), "{table}");
    let line =
        table.lines().find(|line| line.starts_with("model.post_fcnet_hiddens ")).expect("nested settings");
    assert!(line.ends_with("default"), "{line}");
}

#[test]
fn a_file_laid_out_like_a_preset_brings_its_environment_and_its_stop_criteria() {
    let (dir, out) = scratch();
    let file = dir.path().join("mine.toml");
    let settings = "num_workers = 0\ntrain_batch_size = 64\nsgd_minibatch_size = 64\nnum_sgd_iter = 1\n";
    let content = format!(
        "algorithm = \"PPO\"\nenv = \"CartPole-v0\"\n[config]\n{settings}[stop]\ntraining_iteration = 2\n"
    );
    std::fs::write(&file, &content).expect("a file");
    let config = ["--config", text(&file), "--seed", "0"];
    let ran = pavlov(&[["train", "PPO", "--json", "--out", text(&out)].as_slice(), &config].concat()).ok();
    assert_eq!(iterations(&ran.lines()), [1, 2]);
    assert_eq!(ran.lines()[0]["config"]["env"], "CartPole-v0");
    pavlov(&[["train", "DQN"].as_slice(), &config].concat()).refused("is for PPO, not for DQN");
    std::fs::write(&file, content.replace("[stop]", "[stopp]")).expect("a file");
    pavlov(&[["train", "PPO"].as_slice(), &config].concat()).refused("unknown field `stopp`");
    std::fs::write(&file, "lr = = 1").expect("a file");
    pavlov(&[["train", "PPO"].as_slice(), &config].concat())
        .refused("mine.toml` is not readable, but it must be TOML: ");
    pavlov(&["train", "PPO", "--config", "mine.yaml"]).refused("mine.yaml must be named .toml or .json");
    pavlov(&["train", "PPO", "--config", "absent.toml"]).refused("cannot read absent.toml");
    std::fs::write(&file, "[model]\nfcnet_hiddens = [1, inf]").expect("a file");
    let expected = "`model.fcnet_hiddens` is inf, but it must be a finite number";
    pavlov(&[["train", "PPO"].as_slice(), &config].concat()).refused(expected);
}

#[test]
fn a_file_without_an_end_and_a_criterion_without_a_number_are_refused() {
    let (dir, out) = scratch();
    let endless = dir.path().join("endless.toml");
    std::os::unix::fs::symlink("/dev/zero", &endless).expect("a link");
    pavlov(&["train", "PPO", "--config", text(&endless)]).refused("more than 67108864 bytes");
    pavlov(&["train", "PPO", "--config", "/dev/zero"]).refused("must be named .toml or .json");
    let expected = "`stop.timesteps_total` is {}, but nothing in it says when training stops";
    run(&mut train(&out, &["--stop", "timesteps_total={}"])).refused(expected);
    assert!(!out.exists());
}

#[test]
fn a_run_repeats_from_its_own_params_json() {
    let (_dir, first) = scratch();
    run(&mut train(&first, &["--quiet", "--stop", "training_iteration=1"])).ok();
    let (_dir, second) = scratch();
    let params = first.join("params.json");
    let args =
        ["train", "PPO", "--config", text(&params), "--stop", "training_iteration=1", "--out", text(&second)];
    pavlov(&args).ok();
    let [first, second] = [&logged(&first)[0], &logged(&second)[0]];
    assert_eq!(first["config"], second["config"]);
    assert_eq!(first["hist_stats"], second["hist_stats"]);
}

#[test]
fn the_list_of_environments_tells_spaces_limits_and_thresholds() {
    let [list] = pavlov(&["list", "envs", "--json"]).ok().lines().try_into().expect("one list");
    let row =
        list.as_array().expect("a list").iter().find(|row| row["id"] == "CartPole-v1").expect("CartPole");
    assert_eq!(row["action_space"], "Discrete(2)");
    assert!(row["observation_space"].as_str().expect("a space").starts_with("Box("), "{row}");
    assert_eq!((&row["max_episode_steps"], &row["reward_threshold"]), (&500.into(), &475.0.into()));
    let agents = list.as_array().expect("a list").iter().find(|row| row["id"] == "tictactoe_v3").expect("it");
    assert_eq!(agents["action_space"], "Discrete(9)");
    let table = pavlov(&["list", "envs"]).ok().stdout;
    let python = table.lines().find(|line| line.starts_with("py:ENV_ID ")).expect("the bridge");
    assert!(python.contains("Python, gymnasium"), "{python}");
}

#[test]
fn an_environment_is_checked_by_its_id_and_settings() {
    assert_eq!(pavlov(&["env", "check", "CartPole-v1"]).ok().stdout, "CartPole-v1 keeps the contract\n");
    let [checked] = pavlov(&["env", "check", "Pendulum-v1", "--set", "g=9.81", "--json"])
        .ok()
        .lines()
        .try_into()
        .expect("one object");
    assert_eq!(checked, serde_json::json!({"env": "Pendulum-v1", "ok": true}));
    assert_eq!(pavlov(&["env", "check", "tictactoe_v3"]).ok().stdout, "tictactoe_v3 keeps the contract\n");
    pavlov(&["env", "check", "CartPol-v1"]).refused("nearest: CartPole-v1");
    pavlov(&["env", "check", "HalfCheetah-v5"]).refused("those in Python begin with `py:`");
    pavlov(&["env", "check", "Pendulum-v1", "--set", "gravity=9"]).refused("no setting `gravity`; it has g");
}

#[test]
fn the_bench_of_an_environment_counts_steps_and_episodes() {
    let bench = ["env", "bench", "CartPole-v1", "--num-envs", "4", "--seconds", "0.01"];
    let [object] = pavlov(&[&bench[..], &["--json"]].concat()).ok().lines().try_into().expect("one object");
    let number = |key: &str| object[key].as_f64().expect(key);
    assert!(number("steps") % 4.0 == 0.0 && number("steps") > number("episodes"), "{object}");
    assert!(number("episodes") > 0.0 && number("seconds") >= 0.01, "{object}");
    assert_eq!(number("steps_per_second"), number("steps") / number("seconds"));
    assert!(pavlov(&bench).ok().stdout.starts_with("CartPole-v1, 4 copies: "));
    pavlov(&["env", "bench", "CartPole-v1", "--seconds", "0"])
        .refused("--seconds is 0, but it must be above 0");
}

#[test]
fn lists_hold_what_can_be_trained() {
    for (what, key, name) in
        [("algorithms", "name", "PPO"), ("envs", "id", "CartPole-v1"), ("presets", "name", "ppo-cartpole")]
    {
        let table = pavlov(&["list", what]).ok().stdout;
        assert!(table.lines().any(|line| line.starts_with(&format!("{name} "))), "{table}");
        let [list] = pavlov(&["list", what, "--json"]).ok().lines().try_into().expect("one list");
        assert!(list.as_array().expect("a list").iter().any(|row| row[key] == name), "{list}");
    }
}

#[test]
fn doctor_names_the_libtorch_that_is_loaded() {
    let [lines] = pavlov(&["doctor", "--json"]).ok().lines().try_into().expect("one list");
    let line = |what: &str| {
        let found = lines.as_array().expect("a list").iter().find(|line| line["what"] == what);
        found.unwrap_or_else(|| panic!("no {what}")).clone()
    };
    assert!(line("libtorch")["found"].as_str().expect("text").contains("libtorch_cpu.so"));
    assert_eq!(line("gradients")["status"], "ok");
    for what in ["Rust", "C++ compiler", "PyTorch", "CUDA", "cores", "threads"] {
        assert!(line(what)["found"].is_string());
    }
    assert!(pavlov(&["doctor"]).ok().stdout.contains("libtorch_cpu.so"));
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
    stderr.read_line(&mut line).expect("a line");
    assert!(line.contains("Ctrl-C again quits at once"), "{line}");
    signal(&child, "INT");
    assert_eq!(child.wait().expect("a child").code(), Some(130));
}
