//! `pavlov doctor RUN` on runs that were broken on purpose, one for each rule.

use pavlov::doctor::{self, Finding, Sure};
use pavlov::envs::{IntoEnvCreator, Space, Step};
use pavlov::prelude::*;
use pavlov::trainer::rng::Stream;
use pavlov::trainer::settings::{Activation, ExplorationConfig};
use serde_json::json;

use crate::cli::{pavlov, run, scratch, text, train};
use crate::support::{going_on, scripted, tiny_dqn, tiny_ppo, tiny_sac};

/// Trains, saves and asks the doctor. A run that fails on the way has the results until then.
fn examined<T: Trainer>(settings: T, env: impl IntoEnvCreator, iterations: usize) -> Vec<Finding> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut driver = settings.builder(env).logdir(dir.path()).build().expect("a run");
    for _ in 0..iterations {
        if driver.train().is_err() {
            break;
        }
    }
    // A run without a checkpoint has fewer rules, and still some.
    drop(driver.save());
    doctor::examine_run(dir.path()).expect("findings")
}

#[track_caller]
fn names(findings: &[Finding], rule: &str, number: &str) -> Finding {
    let found = findings.iter().find(|finding| finding.rule == rule);
    let found = found.unwrap_or_else(|| panic!("no {rule} in {findings:#?}"));
    assert!(found.number.contains(number), "no {number:?} in: {}", found.number);
    assert!(!found.reason.is_empty() && !found.change.is_empty());
    found.clone()
}

/// What the doctor says of 25 results in which a statistic of the only policy has this value.
fn of_records(config: serde_json::Value, statistic: &str, value: f64) -> Vec<Finding> {
    let mut records = doctor::Records::new(config.as_object().cloned().expect("settings").into());
    for iteration in 1..=25 {
        let result = json!({
            "timesteps_total": 100 * iteration,
            "info": {"learner": {"default_policy": {"learner_stats": {statistic: value}}}},
        });
        records.add(&serde_json::from_value(result).expect("a result"));
    }
    doctor::examine(&records)
}

/// Episodes of `length` steps with the reward `reward`, whatever is done.
fn constant(length: usize, reward: f64) -> impl IntoEnvCreator {
    move || {
        scripted::<i64, _>(Space::discrete(2), move |_, t, _, obs| {
            obs[0] = t as f32;
            Ok(Step { terminated: t == length, ..going_on(reward) })
        })
    }
}

/// Rewards that depend on chance alone, so that each batch says something else.
fn chance() -> impl IntoEnvCreator {
    || {
        scripted::<i64, _>(Space::discrete(2), move |seed, t, _, obs| {
            obs[0] = t as f32;
            let reward = Stream::new(seed, "chance", t as u64).below(2) as f64;
            Ok(Step { terminated: t == 10, ..going_on(reward) })
        })
    }
}

#[test]
fn workers_in_excess_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut driver = tiny_ppo().builder("CartPole-v1").logdir(dir.path()).build().expect("a run");
    driver.train().expect("a result");
    let mut records = doctor::read(dir.path()).expect("records");
    records.config.insert("num_workers".into(), json!(32));
    records.cores = 2;
    names(&doctor::examine(&records), "workers", "`num_workers` is 32");
}

#[test]
fn a_run_beyond_its_schedule_is_named() {
    let mut ppo = tiny_ppo();
    ppo.lr_schedule = serde_json::from_value(json!([[0, 1e-3], [64, 0.0]])).expect("a schedule");
    assert!(!examined(ppo.clone(), "CartPole-v1", 2).iter().any(|found| found.rule == "step_size_ended"));
    let found = names(&examined(ppo, "CartPole-v1", 4), "step_size_ended", "the schedule of lr ended at 64");
    assert_eq!(found.sure, Sure::Certain);
}

#[test]
fn too_few_and_too_many_updates_and_learning_that_never_began_are_named() {
    let dqn = |intensity: f64, starts: usize| {
        let mut dqn = tiny_dqn();
        dqn.off_policy.training_intensity = Some(intensity);
        dqn.off_policy.replay_buffer_config.learning_starts = starts;
        dqn.common.min_sample_timesteps_per_reporting = Some(400);
        dqn
    };
    names(&examined(dqn(0.05, 16), "CartPole-v1", 4), "updates", "gradient steps per environment step");
    let many = names(&examined(dqn(100.0, 16), "CartPole-v1", 4), "updates", "gradient steps");
    assert!(many.change.contains("lower `training_intensity`"), "{}", many.change);
    let mut never = dqn(8.0, 100_000);
    never.off_policy.replay_buffer_config.capacity = 100_000;
    names(&examined(never, "CartPole-v1", 1), "learning_never_began", "learning_starts` is 100000");
}

#[test]
fn components_of_very_different_sizes_are_named_and_a_filter_settles_them() {
    let env = || {
        let mut env = scripted::<i64, _>(Space::discrete(2), |_, t, action, obs| {
            obs.copy_from_slice(&[0.5, 5e4]);
            Ok(Step { terminated: t == 10, ..going_on(action[0] as f64) })
        });
        env.observation_space = Space::Box {
            low: vec![0.0, 0.0],
            high: vec![1.0, 1e5],
            shape: vec![2],
            dtype: pavlov::envs::DType::F32,
        };
        env.reset_obs = vec![0.5, 5e4];
        env
    };
    names(&examined(tiny_ppo(), env, 1), "observation_scales", "reach 1 and 100000");
    let mut filtered = tiny_ppo();
    filtered.common.observation_filter = pavlov::trainer::settings::ObservationFilter::MeanStdFilter;
    assert!(!examined(filtered, env, 1).iter().any(|found| found.rule == "observation_scales"));
}

#[test]
fn steps_that_are_too_large_are_named_by_kl_clipping_and_entropy() {
    let mut ppo = tiny_ppo();
    ppo.lr = 0.5;
    let findings = examined(ppo, "CartPole-v1", 80);
    names(&findings, "entropy_gone", "`entropy` fell from ");
    let mut ppo = tiny_ppo();
    ppo.lr = 0.1;
    ppo.kl_coeff = 0.0;
    ppo.num_sgd_iter = 20;
    let findings = examined(ppo, chance(), 5);
    names(&findings, "kl", "and no target");
    names(&of_records(json!({}), "clip_fraction", 0.7), "clip_share", "`clip_fraction` is 0.70");
    assert!(!of_records(json!({}), "clip_fraction", 0.3).iter().any(|found| found.rule == "clip_share"));
}

#[test]
fn a_temperature_and_values_that_run_away_are_named() {
    let mut sac = tiny_sac();
    sac.target_entropy = serde_json::from_value(json!(50.0)).expect("a target");
    sac.optimization.entropy_learning_rate = 0.5;
    names(&examined(sac, "Pendulum-v1", 6), "temperature", "`alpha_value` is ");
    let mut dqn = tiny_dqn();
    dqn.lr = 0.3;
    dqn.common.gamma = 1.0;
    dqn.off_policy.target_network_update_freq = 1;
    names(&examined(dqn, "CartPole-v1", 60), "values_run_away", "Q-values reach ");
}

#[test]
fn a_critic_that_is_worse_than_a_constant_is_named() {
    let config = json!({"vf_loss_coeff": 0.5});
    let found = names(
        &of_records(config.clone(), "vf_explained_var", -0.5),
        "explained_variance",
        "was below 0 for 20 iterations, -0.50 on average",
    );
    assert!(found.change.contains("`vf_loss_coeff` (it is 0.5)"), "{}", found.change);
    let near = of_records(config, "vf_explained_var", -0.01);
    assert!(!near.iter().any(|found| found.rule == "explained_variance"));
}

#[test]
fn a_value_loss_at_its_bound_is_named() {
    let found = names(&examined(tiny_ppo(), "Pendulum-v1", 8), "value_loss_is_bounded", "bounds it at 10");
    assert_eq!(found.sure, Sure::Certain);
}

#[test]
fn rewards_that_never_change_or_are_huge_are_named() {
    let findings = examined(tiny_ppo(), constant(5, -1.0), 6);
    names(&findings, "reward_never_changes", "had the return -5");
    names(&examined(tiny_ppo(), constant(5, 1e6), 6), "reward_scale", "returns reach 5.0e6");
}

#[test]
fn episodes_that_are_all_cut_or_never_end_are_named() {
    let mut ppo = tiny_ppo();
    ppo.common.wrappers = serde_json::from_value(json!(["TimeLimit(5)"])).expect("a wrapper");
    names(&examined(ppo, "CartPole-v1", 8), "all_cut", "were cut after 5 steps");
    let mut ppo = tiny_ppo();
    ppo.common.rollout_fragment_length = 1000;
    ppo.common.train_batch_size = 2000;
    ppo.sgd_minibatch_size = 2000;
    names(&examined(ppo, constant(usize::MAX, 1.0), 11), "none_ended", "no episode ended in 22000 steps");
}

#[test]
fn evaluations_that_are_far_below_training_are_named() {
    let mut ppo = tiny_ppo();
    ppo.common.env_config = json!({"g": 0.1}).as_object().cloned().expect("settings").into();
    ppo.common.evaluation_config.env_config =
        json!({"g": 60.0}).as_object().cloned().expect("settings").into();
    ppo.common.evaluation_interval = Some(20);
    let findings = examined(ppo, "Pendulum-v1", 80);
    names(&findings, "evaluation_far_from_training", "evaluations bring -");
}

#[test]
fn exploration_that_never_ended_or_never_began_is_named() {
    let with = |initial_epsilon: f64, final_epsilon: f64, epsilon_timesteps: u64| {
        let mut dqn = tiny_dqn();
        dqn.common.exploration_config = ExplorationConfig::EpsilonGreedy {
            initial_epsilon,
            final_epsilon,
            warmup_timesteps: 0,
            epsilon_timesteps,
            epsilon_schedule: None,
        };
        examined(dqn, "CartPole-v1", 6)
    };
    names(&with(1.0, 0.05, 1_000_000), "exploration_never_ended", "`cur_epsilon` is 1.00 after 96 steps");
    names(&with(0.0, 0.0, 100), "exploration_never_began", "`cur_epsilon` was 0");
    let ends = with(1.0, 0.05, 50);
    assert!(!ends.iter().any(|found| found.rule.starts_with("exploration")), "{ends:#?}");
}

#[test]
fn dead_units_are_named() {
    let mut ppo = tiny_ppo();
    ppo.common.model.fcnet_hiddens = vec![8, 8];
    ppo.common.model.fcnet_activation = Activation::Relu;
    ppo.lr = 3.0;
    names(&examined(ppo, "CartPole-v1", 20), "dead_units", " % of the units of `");
}

#[test]
fn seeds_that_disagree_are_named_and_settings_that_differ_are_not_compared() {
    let records = |seed: u64, lr: f64, gained: f64| {
        let config = json!({"seed": seed, "lr": lr}).as_object().cloned().expect("settings");
        let mut records = doctor::Records::new(config.into());
        for (steps, mean) in [(0, 10.0), (100, 10.0 + gained)] {
            let result = json!({
                "timesteps_total": steps, "episode_reward_min": mean, "episode_reward_mean": mean,
                "episode_reward_max": mean,
            });
            records.add(&serde_json::from_value(result).expect("a result"));
        }
        records
    };
    let apart = [records(0, 0.1, 90.0), records(1, 0.1, 5.0), records(2, 0.1, 80.0)];
    let found = doctor::seeds(&apart).expect("a finding");
    assert!(
        found.number.starts_with("3 runs that differ in their seeds end between 15.0 and 100.0"),
        "{found}"
    );
    let alike = [records(0, 0.1, 90.0), records(1, 0.1, 85.0), records(2, 0.1, 80.0)];
    assert_eq!(doctor::seeds(&alike), None);
    let others = [records(0, 0.1, 90.0), records(1, 0.2, 5.0), records(2, 0.1, 80.0)];
    assert_eq!(doctor::seeds(&others), None);
}

#[test]
fn the_command_prints_what_was_found_and_a_run_ends_with_it() {
    let (_dir, out) = scratch();
    let more = ["--set", "lr_schedule=[[0,0.001],[64,0.0]]", "--stop", "training_iteration=3"];
    let said = run(&mut train(&out, &more)).ok().stderr;
    let line = "certain: the schedule of lr ended at 64";
    assert!(said.contains(&format!("doctor: {line}")), "{said}");
    let ran = pavlov(&["doctor", text(&out)]).ok().stdout;
    assert!(ran.contains(": 1 finding\n") && ran.contains(line), "{ran}");
    let [object] = pavlov(&["doctor", text(&out), "--json"]).ok().lines().try_into().expect("one object");
    assert_eq!(object["runs"][0]["findings"][0]["rule"], "step_size_ended");
    let (_dir, well) = scratch();
    run(&mut train(&well, &["--stop", "training_iteration=2"])).ok();
    let ran = pavlov(&["doctor", text(&well)]).ok().stdout;
    assert!(ran.ends_with("no rule found anything that keeps it from learning\n"), "{ran}");
    pavlov(&["doctor", text(&out.join("none"))]).refused("there is no such directory");
    pavlov(&["doctor", text(out.parent().expect("a directory")), "--json"]).ok();
}
