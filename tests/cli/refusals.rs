//! Bad names, bad usage and bad directories: the error and its code.

use super::{iterations, pavlov, run, scratch, text, train};

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
fn an_unknown_setting_does_not_hide_the_rules_that_others_break() {
    let env = ["train", "PPO", "--env", "CartPole-v1"];
    let settings = ["--set", "gama=0.9", "--set", "lr=-1", "--set", "gamma=2", "--set", "anneal_lr=true"];
    let refused = pavlov(&[env.as_slice(), &settings].concat());
    for rule in [
        "4 settings are refused",
        "unknown setting `gama` (from --set); nearest: `gamma`",
        "`lr` is -1, but it must be above 0",
        "`gamma` is 2, but it must be in 0..=1",
        "`anneal_lr` is true, but it has no counterpart here: give `lr_schedule` = [[0, FIRST], [LAST_STEP, 0.0]] instead",
    ] {
        assert!(refused.stderr.contains(rule), "no {rule:?} in: {}", refused.stderr);
    }
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
