//! Settings from files and from the command line.

use serde_json::Value;

use super::{iterations, logged, pavlov, run, scratch, text, train};

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
    let refused = pavlov(&[["train", "PPO"].as_slice(), &config].concat());
    assert!(refused.stderr.contains("line 8, column 2"), "{}", refused.stderr);
    refused.refused("unknown field `stopp`");
    std::fs::write(&file, content.replace("training_iteration = 2", "training_iteration = {}"))
        .expect("a file");
    pavlov(&[["train", "PPO"].as_slice(), &config].concat())
        .refused("mine.toml, line 9: `stop.training_iteration` is {}");
    std::fs::write(&file, "lr = = 1").expect("a file");
    pavlov(&[["train", "PPO"].as_slice(), &config].concat())
        .refused("mine.toml` is not readable, but it must be TOML: ");
    pavlov(&["train", "PPO", "--config", "mine.yaml"]).refused("mine.yaml must be named .toml or .json");
    pavlov(&["train", "PPO", "--config", "absent.toml"]).refused("cannot read absent.toml");
    std::fs::write(&file, "[model]\nfcnet_hiddens = [1, inf]").expect("a file");
    let expected = "mine.toml, line 2: `model.fcnet_hiddens` is inf, but it must be a finite number";
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
