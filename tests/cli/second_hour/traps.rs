//! Settings that train in silence and learn nothing: each is refused or named once.

use pavlov::envs::{IntoEnvCreator, Space, Step, seems_endless};
use pavlov::presets;
use pavlov::registry;
use pavlov::trainer::policy::{Act, Fragment, Policy, PolicyClass, Seen};
use pavlov::trainer::settings::ExplorationConfig;
use pavlov::tune::config::Layer;
use pavlov::{envs::EnvCreator, prelude::*, trainer::batch::SampleBatch};

use crate::cli::{command, pavlov, run, scratch, text, train};
use crate::support::{going_on, refused, scripted, tiny_ppo, workers_with};

/// `pavlov train PPO` in an environment, with iterations of milliseconds; returns what it says.
fn said(env: &str, sets: &[&str], more: &[&str]) -> String {
    let (_dir, out) = scratch();
    let tiny = ["num_workers=0", "train_batch_size=64", "num_sgd_iter=1", "model.fcnet_hiddens=[8]"];
    let mut train = command(["train", "PPO", "--env", env, "--seed", "0"]);
    if !sets.iter().any(|set| set.starts_with("sgd_minibatch_size")) {
        train.args(["--set", "sgd_minibatch_size=32"]);
    }
    train.args(tiny.iter().chain(sets).flat_map(|set| ["--set", set])).args(more);
    run(train.arg("--out").arg(&out)).ok().stderr
}

#[test]
fn a_run_whose_step_size_has_ended_says_so_and_a_stretched_schedule_learns_on() {
    let (_dir, out) = scratch();
    let schedules = ["lr_schedule=[[0, 1e-3], [128, 0.0]]", "clip_param_schedule=[[0, 0.2], [128, 0.0]]"];
    let mut more: Vec<&str> = schedules.iter().flat_map(|set| ["--set", set]).collect();
    more.extend(["--stop", "timesteps_total=128"]);
    let ended = "the schedules of lr and clip_param ended at 128: lr and clip_param are 0";
    let first = run(&mut train(&out, &more)).ok().stderr;
    assert!(first.contains(ended), "{first}");
    assert!(first.contains("--stop timesteps_total=VALUE --stretch-schedules"), "{first}");
    assert!(!first.contains("nothing is learned"), "the run ended with its schedules: {first}");

    let done = pavlov(&["resume", text(&out)]).ok().stderr;
    assert!(
        done.contains("--stop timesteps_total=VALUE --stretch-schedules, because the schedules"),
        "{done}"
    );
    let longer = pavlov(&["resume", text(&out), "--stop", "timesteps_total=192"]).ok().stderr;
    assert_eq!(longer.matches("so nothing is learned from here on").count(), 1, "{longer}");

    let stretch = ["resume", text(&out), "--stop", "timesteps_total=512", "--stretch-schedules", "--json"];
    let stretched = pavlov(&stretch).ok();
    assert!(
        stretched.stderr.contains("stretched: lr_schedule = [[0,0.001],[512,0.0]]"),
        "{}",
        stretched.stderr
    );
    assert!(!stretched.stderr.contains("nothing is learned"), "{}", stretched.stderr);
    let lr = |result: &serde_json::Value| {
        result["info"]["learner"]["default_policy"]["learner_stats"]["cur_lr"].as_f64().expect("a step size")
    };
    // The line from 0.001 at step 0 to 0 at step 512.
    assert!((lr(&stretched.lines()[0]) - 0.001 * 256.0 / 512.0).abs() < 1e-9);
    let short = ["resume", text(&out), "--stop", "training_iteration=99", "--stretch-schedules"];
    pavlov(&[&short[..], &["--stop", "timesteps_total=null"]].concat())
        .refused("say where it ends with --stop timesteps_total=N");
}

/// Chooses by values, as a policy of a user's own would.
#[derive(Debug)]
struct Valued(ExplorationConfig);

impl Policy for Valued {
    fn compute_actions(&mut self, _: Seen<'_>, act: Act<'_>) -> Result<()> {
        let values = vec![0.5; 2 * act.rngs.len()];
        act.by_values(&values, &self.0)
    }

    fn postprocess_trajectory(&mut self, fragment: Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.rows())
    }
}

#[test]
fn values_of_actions_are_not_sampled_by_a_strategy_for_distributions() {
    let common = tiny_ppo().common;
    let sample = |exploration: ExplorationConfig| {
        let class = PolicyClass::new("Valued", move |_| Ok(Valued(exploration.clone())));
        workers_with(&common, class, "CartPole-v1").and_then(|workers| workers.sample())
    };
    let says = [
        "`exploration_config.type` is StochasticSampling",
        "greedy from the first step",
        "\"EpsilonGreedy\"",
    ];
    refused(sample(ExplorationConfig::StochasticSampling { random_timesteps: 0 }), &says);
    assert!(sample(ExplorationConfig::Random {}).is_ok());
    assert!(sample(ExplorationConfig::SoftQ { temperature: 1.0 }).is_ok());
}

#[test]
fn a_bound_that_hides_the_value_loss_is_named_and_without_the_bound_nothing_is_said() {
    let more = ["--stop", "training_iteration=40"];
    let bounded = said("Pendulum-v1", &[], &more);
    let line = "and `vf_clip_param` bounds it at 10: most rows give the critic no gradient. Set `vf_clip` to \"none\"";
    assert_eq!(bounded.matches(line).count(), 1, "{bounded}");
    let free = said("Pendulum-v1", &["vf_clip=none"], &more);
    assert!(!free.contains("vf_clip_param"), "{free}");
}

#[test]
fn the_first_line_without_a_preset_names_one_and_auto_takes_it() {
    let one = ["--stop", "training_iteration=1"];
    let line = |said: String| said.lines().next().unwrap_or_default().to_owned();
    let first = line(said("CartPole-v1", &[], &one));
    assert!(first.starts_with("no preset: these are Ray's defaults. The preset ppo-cartpole"), "{first}");
    let stop = ["--stop", "training_iteration=1", "--stop", "timesteps_total=null"];
    let auto = line(said("CartPole-v1", &[], &[&["--preset", "auto"], &stop[..]].concat()));
    assert_eq!(auto, "preset ppo-cartpole");
    let other = line(said("Acrobot-v1", &[], &[&["--preset", "ppo-cartpole"], &stop[..]].concat()));
    assert!(other.starts_with("the preset ppo-cartpole was made for CartPole-v1"), "{other}");
    pavlov(&["train", "PPO", "--preset", "auto"])
        .refused("--preset is auto, so give an environment with --env");
}

#[test]
fn masks_that_nobody_reads_are_named_and_refused_in_a_board_game() {
    let one = ["--stop", "training_iteration=1"];
    let notice = "the environment says which actions are legal, and the policy does not read it";
    assert_eq!(said("Taxi-v4", &[], &one).matches(notice).count(), 1);
    for settled in ["mask_actions=true", "allow_illegal_actions=true"] {
        assert!(!said("Taxi-v4", &[settled], &one).contains(notice), "{settled}");
    }
    pavlov(&["train", "PPO", "--env", "connect_four_v3", "--stop", "training_iteration=1"])
        .refused("`mask_actions` is false, but the environment says which moves are legal");
    pavlov(&["config", "show", "PPO", "--env", "connect_four_v3"]).refused("`mask_actions` is false");
    said("tictactoe_v3", &["allow_illegal_actions=true"], &one);
}

#[test]
fn an_export_is_named_by_its_format_and_says_what_it_takes_and_gives() {
    let (dir, out) = scratch();
    run(&mut train(&out, &["--stop", "training_iteration=1"])).ok();
    let place = |name: &str| dir.path().join(name);
    let other = place("pole.h5");
    pavlov(&["export", text(&out), "--out", text(&other)]).refused("the end of the name says the format");
    assert!(!other.exists());
    let file = place("pole.pt");
    let said = pavlov(&["export", text(&out), "--out", text(&file)]).ok().stdout;
    assert!(said.contains("takes:     float32 [rows, 4], observations of Box("), "{said}");
    assert!(said.contains("gives:     float32 [rows, 2], a logit or a Q-value of each action"), "{said}");
    let stored = std::fs::read_to_string(place("pole.pt.json")).expect("a file beside it");
    let stored: serde_json::Value = serde_json::from_str(&stored).expect("JSON");
    assert_eq!(stored["columns"], 2);

    let masked = place("masked");
    let mut taxi = command(["train", "PPO", "--env", "Taxi-v4", "--set", "mask_actions=true"]);
    taxi.args(["--set", "num_workers=0", "--set", "train_batch_size=64", "--set", "sgd_minibatch_size=32"]);
    taxi.args(["--set", "num_sgd_iter=1", "--stop", "training_iteration=1", "--out", text(&masked)]);
    run(&mut taxi).ok();
    let said = pavlov(&["export", text(&masked), "--out", text(&place("taxi.pt"))]).ok().stdout;
    assert!(said.contains("`mask` bool [batch, 6]: which actions are legal"), "{said}");
    assert!(
        said.contains(
            "gives:     float32 [batch, 7]: `action` (column 0): actions as the environment takes them"
        ),
        "{said}"
    );
}

#[test]
fn an_environment_without_any_limit_is_named_by_its_check() {
    let check = |env: &str| pavlov(&["env", "check", env]).ok().stdout;
    assert_eq!(check("CartPole-v1"), "CartPole-v1 keeps the contract\n");
    assert_eq!(check("tictactoe_v3"), "tictactoe_v3 keeps the contract\n");
    let endless = |length: usize| {
        let env = move || {
            scripted::<i64, _>(Space::discrete(2), move |_, t, _, _| {
                Ok(Step { terminated: t == length, ..going_on(0.0) })
            })
        };
        let mut copies = env.into_env_creator().make_vec(&Default::default(), 1).expect("a copy");
        seems_endless(&mut *copies).expect("300 steps")
    };
    assert!(endless(usize::MAX) && !endless(10));
}

/// Environments of presets that need what is not on every machine; their settings fit the other environment, too.
fn env_of(preset: &presets::Preset) -> String {
    let continuous = ["SAC", "TD3", "DDPG"].contains(&preset.algorithm.as_str());
    match preset.env.as_deref() {
        Some("HalfCheetah-v5" | "Hopper-v5") => "Pendulum-v1".into(),
        Some(env) => env.into(),
        None if continuous => "Pendulum-v1".into(),
        None => "CartPole-v1".into(),
    }
}

#[test]
fn no_preset_gets_a_notice() {
    for name in presets::names() {
        let preset = presets::preset(name).expect("a preset");
        let env = env_of(&preset);
        if env.starts_with("py:") {
            continue;
        }
        let entry = registry::algorithm(&preset.algorithm).expect("an algorithm");
        let layer = Layer { origin: name.into(), values: preset.config };
        let resolved = entry.resolve(vec![layer]).expect("settings");
        let effective = entry.effective(&resolved, &EnvCreator::from(env)).expect("settings that fit");
        assert_eq!(effective.notices, Vec::<String>::new(), "{name}");
    }
}
