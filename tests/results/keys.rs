//! Keys, smoothing, counters and the length of an iteration.

use pavlov::prelude::*;
use serde_json::{Value, json};

use crate::support::{Clockwork, at, clockwork, number, quiet, tiny_dqn, tiny_ppo, with_off_policy};

/// What Ray's `check_train_results` wants at the top.
const TOP: &str = "agent_timesteps_total config custom_metrics episode_len_mean episode_reward_max
    episode_reward_mean episode_reward_min episodes_total hist_stats info iterations_since_restore
    num_healthy_workers perf policy_reward_max policy_reward_mean policy_reward_min time_since_restore
    time_this_iter_s timesteps_since_restore timesteps_total timers time_total_s training_iteration
    num_agent_steps_sampled num_agent_steps_trained num_env_steps_sampled num_env_steps_trained
    num_env_steps_sampled_this_iter num_env_steps_trained_this_iter episodes_this_iter counters
    sampler_results.hist_stats.episode_reward hist_stats.episode_lengths sampler_perf trial_id experiment_id date timestamp pid
    hostname node_ip timesteps_this_iter done";

/// The counters, in `counters` and again in `info`.
const COUNTERS: &str = "num_env_steps_sampled num_agent_steps_sampled num_env_steps_trained
    num_agent_steps_trained num_target_updates last_target_update_ts num_weight_syncs";

const PPO_STATS: &str =
    "cur_kl_coeff cur_lr total_loss policy_loss vf_loss vf_explained_var kl entropy entropy_coeff";
const DQN_STATS: &str = "mean_q min_q max_q cur_lr";

fn has_keys<T: Trainer>(mut settings: T, stats: &str) -> Metrics {
    settings.common_mut().log_sys_usage = true;
    let result = quiet(settings, "CartPole-v1").and_then(|mut t| Ok(t.train()?)).expect("a result");
    TOP.split_whitespace().for_each(|key| {
        at(&result, key);
    });
    for key in COUNTERS.split_whitespace() {
        assert_eq!(at(&result, &format!("counters.{key}")), at(&result, &format!("info.{key}")));
    }
    for key in stats.split_whitespace() {
        let value = number(&result, &format!("info.learner.default_policy.learner_stats.{key}"));
        assert!(value.is_finite(), "{key}");
    }
    let sampled = at(&result, "sampler_results").as_object().expect("an object");
    sampled.iter().for_each(|(key, value)| assert_eq!(at(&result, key), value));
    for timer in ["sample", "learn", "training_iteration"] {
        assert!(number(&result, &format!("timers.{timer}_time_ms")) > 0.0);
    }
    assert!(number(&result, "timers.sample_throughput") > 0.0);
    result
}

#[test]
fn ppo_results_have_rays_keys() {
    let result = has_keys(tiny_ppo(), PPO_STATS);
    assert_eq!(number(&result, "info.learner.default_policy.num_agent_steps_trained"), 32.0);
    assert_eq!(at(&result, "info.learner.default_policy.engine"), "fused");
    assert_eq!(at(&result, "info.learner.default_policy.same_bits_on"), "every processor");
}

#[test]
fn dqn_results_have_rays_keys() {
    let mut dqn = tiny_dqn();
    dqn.common.model.fused = false;
    let result = has_keys(dqn, DQN_STATS);
    assert_eq!(at(&result, "info.learner.default_policy.same_bits_on"), "this kind of processor");
    assert!(number(&result, "info.learner.default_policy.mean_td_error").is_finite());
}

/// Iterations of 32 steps of two copies whose episodes take 4 steps and return 10: 8 episodes each.
fn eight_episodes(change: impl FnOnce(&mut Common)) -> Driver<Algorithm<Ppo>> {
    let mut ppo = tiny_ppo();
    change(&mut ppo.common);
    quiet(ppo, clockwork(Clockwork::terminating(4))).expect("a trainer")
}

#[test]
fn results_average_over_the_window_or_over_all_new_episodes_if_they_are_more() {
    // Window, then episodes in the first and in the second result.
    for (window, first, second) in [(3, 8, 8), (10, 8, 10), (100, 8, 16)] {
        let mut trainer = eight_episodes(|common| common.metrics_num_episodes_for_smoothing = window);
        for wanted in [first, second] {
            let result = trainer.train().expect("a result");
            let episodes = at(&result, "hist_stats.episode_reward").as_array().expect("a list");
            assert_eq!(episodes, &vec![json!(10.0); wanted], "window {window}");
            assert_eq!(number(&result, "episodes_this_iter"), 8.0);
            assert_eq!(number(&result, "episode_reward_mean"), 10.0);
            assert_eq!(number(&result, "episode_len_mean"), 4.0);
        }
    }
}

#[test]
fn means_before_an_episode_ends_are_null() {
    let mut trainer = quiet(tiny_ppo(), clockwork(Clockwork::terminating(1000))).expect("a trainer");
    let result = trainer.train().expect("a result");
    for key in ["episode_reward_mean", "episode_reward_min", "episode_reward_max", "episode_len_mean"] {
        assert_eq!(at(&result, key), &Value::Null, "{key}");
    }
    assert_eq!(number(&result, "episodes_this_iter"), 0.0);
    assert_eq!(at(&result, "hist_stats.episode_reward"), &json!([]));
}

#[track_caller]
fn assert_counts(result: &Metrics, wanted: &[(&str, u64)]) {
    for (key, wanted) in wanted {
        assert_eq!(number(result, key), *wanted as f64, "{key}");
    }
}

#[test]
fn ppo_counts_each_row_of_a_batch_once_whatever_the_passes() {
    let mut ppo = Ppo { num_sgd_iter: 3, ..tiny_ppo() };
    ppo.common.num_workers = 2;
    ppo.common.num_envs_per_worker = 1;
    let mut trainer = quiet(ppo, clockwork(Clockwork::terminating(4))).expect("a trainer");
    for i in 1..=2 {
        assert_counts(
            &trainer.train().expect("a result"),
            &[
                ("training_iteration", i),
                ("num_env_steps_sampled", 32 * i),
                ("num_env_steps_trained", 32 * i),
                ("num_env_steps_sampled_this_iter", 32),
                ("num_env_steps_trained_this_iter", 32),
                ("timesteps_this_iter", 32),
                ("timesteps_total", 32 * i),
                ("timesteps_since_restore", 32 * i),
                ("episodes_total", 8 * i),
                ("counters.num_weight_syncs", i),
            ],
        );
    }
}

#[test]
fn dqn_counts_replayed_rows_and_target_updates() {
    // Rounds of 8 steps, each followed by a batch of 8 once 16 steps are stored; targets every 16 steps.
    let dqn = with_off_policy(|off| off.target_network_update_freq = 16);
    let mut trainer = quiet(dqn, "CartPole-v1").expect("a trainer");
    for (sampled, trained, updates) in [(16, 8, 1), (32, 24, 2), (48, 40, 3)] {
        assert_counts(
            &trainer.train().expect("a result"),
            &[
                ("num_env_steps_sampled", sampled),
                ("num_env_steps_trained", trained),
                ("counters.num_target_updates", updates),
                ("counters.last_target_update_ts", sampled),
            ],
        );
    }
}

#[test]
fn weights_are_sent_only_when_something_was_learned() {
    // As above: a worker's rounds of 8 steps, of which the first of all learns nothing.
    let mut dqn = tiny_dqn();
    dqn.common.num_workers = 1;
    let mut trainer = quiet(dqn, "CartPole-v1").expect("a trainer");
    for (sampled, syncs) in [(16, 1), (32, 3), (48, 5)] {
        let result = trainer.train().expect("a result");
        assert_counts(&result, &[("num_env_steps_sampled", sampled), ("counters.num_weight_syncs", syncs)]);
    }
}

#[test]
fn training_intensity_trains_so_many_rows_per_sampled_step() {
    // 16 steps fill the buffer; from then on 2 rows per step, in batches of 8.
    let dqn = with_off_policy(|off| off.training_intensity = Some(2.0));
    let mut trainer = quiet(dqn, "CartPole-v1").expect("a trainer");
    for trained in [0, 32, 64] {
        let result = trainer.train().expect("a result");
        assert_counts(&result, &[("num_env_steps_trained", trained)]);
    }
}

#[test]
fn an_iteration_lasts_until_enough_was_sampled_trained_and_waited() {
    // Rounds of 32: three of them pass 70.
    let mut trainer = eight_episodes(|common| common.min_sample_timesteps_per_reporting = Some(70));
    assert_counts(&trainer.train().expect("a result"), &[("num_env_steps_sampled", 96)]);
    let mut trainer = eight_episodes(|common| common.min_train_timesteps_per_reporting = Some(70));
    assert_counts(&trainer.train().expect("a result"), &[("num_env_steps_trained", 96)]);
    let mut trainer = eight_episodes(|common| common.min_time_s_per_reporting = Some(0.05));
    assert!(number(&trainer.train().expect("a result"), "time_this_iter_s") >= 0.05);
}
