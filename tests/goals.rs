//! Environments with goals: what hindsight experience replay refuses, what it learns, and that workers change nothing.

use pavlov::prelude::*;
use pavlov::trainer::replay::{GoalSelectionStrategy, OffPolicy, ReplayBufferConfig, ReplayKind};
use pavlov::trainer::settings::{Common, ExplorationConfig, ObservationFilter};
use serde_json::json;

use crate::cli::pavlov;
use crate::support::{number, quiet, refused, tiny_ddpg, tiny_dqn, tiny_sac, tiny_td3};

const ID: &str = "BitFlippingEnv-v0";

fn with_goals(n_bits: usize) -> Dqn {
    let mut dqn = tiny_dqn();
    dqn.common.env_config.insert("n_bits".into(), n_bits.into());
    dqn.off_policy.replay_buffer_config.kind = ReplayKind::HerReplayBuffer;
    dqn
}

/// DQN for bits of which random actions set all in about 3 of 1,000 episodes.
fn solver(kind: ReplayKind) -> Dqn {
    let mut dqn = with_goals(12);
    dqn.lr = 1e-3;
    dqn.dueling = false;
    dqn.hiddens = vec![];
    dqn.common.gamma = 0.95;
    dqn.common.num_envs_per_worker = 1;
    dqn.common.train_batch_size = 64;
    dqn.common.model.fcnet_hiddens = vec![64];
    dqn.common.min_sample_timesteps_per_reporting = Some(1000);
    dqn.common.exploration_config = ExplorationConfig::EpsilonGreedy {
        initial_epsilon: 1.0,
        final_epsilon: 0.05,
        warmup_timesteps: 0,
        epsilon_timesteps: 2000,
        epsilon_schedule: None,
    };
    // One update per step.
    dqn.off_policy.training_intensity = Some(64.0);
    dqn.off_policy.target_network_update_freq = 200;
    dqn.off_policy.replay_buffer_config.kind = kind;
    dqn.off_policy.replay_buffer_config.capacity = 20_000;
    dqn.off_policy.replay_buffer_config.learning_starts = 200;
    dqn
}

/// The mean return of the last iteration after `steps` steps. A policy that flips each wrong bit once gets about -5 of -12.
fn learned(settings: Dqn, steps: f64) -> f64 {
    let mut driver = quiet(settings, ID).expect("a driver");
    loop {
        let result = driver.train().expect("a result");
        if number(&result, "timesteps_total") >= steps {
            return number(&result, "episode_reward_mean");
        }
    }
}

#[test]
fn bit_flipping_is_learned_with_other_goals_and_not_without() {
    let with = learned(solver(ReplayKind::HerReplayBuffer), 12_000.0);
    let without = learned(solver(ReplayKind::ReplayBuffer), 12_000.0);
    println!("with {with}, without {without}");
    assert!(with > -6.5, "{with}");
    assert!(without < -11.0, "{without}");
}

#[test]
fn the_number_of_workers_changes_nothing() {
    let trained = |workers: usize| {
        let mut dqn = with_goals(6);
        dqn.common.num_workers = workers;
        dqn.common.num_envs_per_worker = 4 / workers.max(1);
        let mut driver = quiet(dqn, ID).expect("a driver");
        let results: Vec<f64> = (0..4)
            .map(|_| driver.train().expect("a result"))
            .filter(|result| number(result, "num_env_steps_trained") > 0.0)
            .map(|result| number(&result, "info.learner.default_policy.learner_stats.loss"))
            .collect();
        assert!(results.len() > 1);
        results
    };
    let alone = trained(0);
    assert_eq!(trained(2), alone);
    assert_eq!(trained(4), alone);
}

#[test]
fn all_algorithms_with_continuous_actions_and_every_strategy_learn_from_goals() {
    fn trained<T: Trainer>(settings: T) {
        let mut driver = quiet(settings, ID).expect("a driver");
        let steps = (0..4).map(|_| number(&driver.train().expect("a result"), "num_env_steps_trained"));
        assert!(steps.sum::<f64>() > 0.0, "{}", T::NAME);
    }
    use GoalSelectionStrategy::{Episode, Final, Future};
    for strategy in [Future, Final, Episode] {
        let goals = |common: &mut Common, off_policy: &mut OffPolicy| {
            common.env_config.insert("n_bits".into(), 4.into());
            common.env_config.insert("continuous".into(), true.into());
            let buffer = &mut off_policy.replay_buffer_config;
            buffer.kind = ReplayKind::HerReplayBuffer;
            buffer.goal_selection_strategy = strategy;
            buffer.n_sampled_goal = 2;
        };
        let mut sac = tiny_sac();
        goals(&mut sac.common, &mut sac.off_policy);
        let mut tqc = sac.clone();
        tqc.quantiles.n_quantiles = 5;
        trained(tqc);
        trained(sac);
        let mut td3 = tiny_td3();
        goals(&mut td3.0.common, &mut td3.0.off_policy);
        trained(td3);
        let mut ddpg = tiny_ddpg();
        goals(&mut ddpg.common, &mut ddpg.off_policy);
        trained(ddpg);
    }
}

#[test]
fn a_buffer_of_another_type_keeps_the_algorithms_rows() {
    let given = json!({"replay_buffer_config": {"type": "HerReplayBuffer", "n_sampled_goal": 2}});
    let sac: Sac = serde_json::from_value(given).expect("settings");
    let kept = |buffer: &ReplayBufferConfig| (buffer.capacity, buffer.learning_starts);
    assert_eq!(
        kept(&sac.off_policy.replay_buffer_config),
        kept(&Sac::get_default_config().off_policy.replay_buffer_config)
    );
    assert_eq!(sac.off_policy.replay_buffer_config.n_sampled_goal, 2);
    let to_goals = "replay_buffer_config.type=HerReplayBuffer";
    let shown = ["config", "show", "SAC", "--env", ID, "--preset", "sac-sb3", "--set", to_goals, "--json"];
    let buffer = pavlov(&shown).ok().lines().remove(0)["config"]["replay_buffer_config"].clone();
    assert_eq!(
        (&buffer["capacity"], &buffer["learning_starts"]),
        (&json!(1_000_000), &json!(100)),
        "{buffer}"
    );
}

#[test]
fn what_does_not_go_with_other_goals_is_refused() {
    let no_goals = |change: fn(&mut Dqn)| {
        let mut dqn = with_goals(4);
        change(&mut dqn);
        quiet(dqn, ID)
    };
    let her = "HerReplayBuffer";
    refused(no_goals(|dqn| dqn.off_policy.n_step = 3), &["`n_step` is 3", her, "must be 1"]);
    refused(
        no_goals(|dqn| dqn.common.observation_filter = ObservationFilter::MeanStdFilter),
        &["observation_filter", her, "NoFilter"],
    );
    refused(
        no_goals(|dqn| dqn.off_policy.replay_buffer_config.prioritized_replay_alpha = 0.5),
        &["prioritized_replay_alpha", "no effect", her],
    );
    refused(
        no_goals(|dqn| dqn.off_policy.replay_buffer_config.n_sampled_goal = 0),
        &["replay_buffer_config.n_sampled_goal", "at least 1"],
    );
    let plain = |change: fn(&mut Dqn)| {
        let mut dqn = tiny_dqn();
        change(&mut dqn);
        quiet(dqn, "CartPole-v1")
    };
    refused(
        plain(|dqn| dqn.off_policy.replay_buffer_config.n_sampled_goal = 2),
        &["n_sampled_goal", "no effect", her],
    );
    refused(
        plain(|dqn| {
            dqn.off_policy.replay_buffer_config.goal_selection_strategy = GoalSelectionStrategy::Final;
        }),
        &["goal_selection_strategy", "no effect", her],
    );
    refused(
        plain(|dqn| dqn.off_policy.replay_buffer_config.kind = ReplayKind::HerReplayBuffer),
        &["replay_buffer_config.type", "without goals", "`achieved_goal` and `desired_goal`"],
    );
}

#[test]
fn an_environment_that_computes_no_rewards_from_its_goals_is_refused_in_the_first_round() {
    let mut dqn = with_goals(4);
    let wrapper = json!("ClipReward(-0.5, 0.5)");
    dqn.common.wrappers = vec![pavlov::envs::wrappers::WrapperSpec::try_from(wrapper).expect("a wrapper")];
    let mut driver = quiet(dqn, ID).expect("a driver");
    refused(driver.train(), &["BitFlippingEnv-v0", "compute_reward", "changes observations or rewards"]);
}
