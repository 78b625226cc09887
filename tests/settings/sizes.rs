//! Sizes that cannot be: refused by name before anything of that size is made.

use pavlov::registry;
use pavlov::tune::{LoggerChoice, RunOptions};
use serde_json::{Value, json};

use super::object;
use crate::support::refused;

#[test]
fn settings_that_need_more_memory_than_there_is_are_refused_by_name_with_the_sum() {
    for (algorithm, settings, key) in [
        ("PPO", json!({"num_envs_per_worker": 1e9 as u64}), "num_envs_per_worker"),
        ("PPO", json!({"rollout_fragment_length": 1e12 as u64}), "rollout_fragment_length"),
        ("PPO", json!({"train_batch_size": u64::MAX}), "train_batch_size"),
        ("PPO", json!({"num_envs_per_worker": u64::MAX, "rollout_fragment_length": u64::MAX}), "num_envs"),
        ("PPO", json!({"model": {"fcnet_hiddens": [1e6 as u64, 1e6 as u64]}}), "model.fcnet_hiddens"),
        ("PPO", json!({"model": {"post_fcnet_hiddens": [1e12 as u64]}}), "model.post_fcnet_hiddens"),
        ("PPO", json!({"model": {"use_lstm": true, "lstm_cell_size": 1e9 as u64}}), "model.lstm_cell_size"),
        ("PPO", json!({"metrics_num_episodes_for_smoothing": 1e15 as u64}), "metrics_num_episodes"),
        ("PPO", json!({"evaluation_interval": 1, "evaluation_duration": 1e12 as u64}), "evaluation_duration"),
        ("DQN", json!({"num_atoms": 1e9 as u64}), "num_atoms"),
        ("DQN", json!({"hiddens": [1e6 as u64, 1e6 as u64]}), "hiddens"),
        ("DQN", json!({"replay_buffer_config": {"capacity": 1e12 as u64}}), "replay_buffer_config.capacity"),
        ("SAC", json!({"replay_buffer_config": {"capacity": u64::MAX}}), "replay_buffer_config.capacity"),
        ("SAC", json!({"q_model_config": {"fcnet_hiddens": [1e6 as u64, 1e6 as u64]}}), "q_model_config"),
        ("SAC", json!({"n_critics": 1e12 as u64}), "n_critics"),
        ("SAC", json!({"n_quantiles": 1e12 as u64}), "n_quantiles"),
        ("TD3", json!({"replay_buffer_config": {"capacity": 1e12 as u64}}), "replay_buffer_config.capacity"),
        ("DDPG", json!({"critic_hiddens": [1e6 as u64, 1e6 as u64]}), "critic_hiddens"),
        ("QMIX", json!({"mixing_embed_dim": 1e12 as u64}), "mixing_embed_dim"),
        ("QMIX", json!({"replay_buffer_config": {"capacity": 1e12 as u64}}), "replay_buffer_config.capacity"),
        (
            "IMPALA",
            json!({"replay_proportion": 1.0, "replay_buffer_num_slots": 1e15 as u64}),
            "replay_buffer_num_slots",
        ),
    ] {
        refused(
            build(algorithm, settings),
            &[&format!("`{key}"), "but the run would need", " are available: "],
        );
    }
}

#[test]
fn what_a_policy_remembers_counts_once_per_sequence() {
    let model =
        |max_seq_len: u64| json!({"use_lstm": true, "lstm_cell_size": 1024, "max_seq_len": max_seq_len});
    let settings = |max_seq_len| {
        json!({"num_workers": 0, "num_envs_per_worker": 1000, "rollout_fragment_length": 100_000,
               "train_batch_size": 1000, "sgd_minibatch_size": 1000, "model": model(max_seq_len)})
    };
    let expected = "819.2 GB for memories of the policy (`num_workers` 1 x `num_envs_per_worker` 1000 x \
                    `rollout_fragment_length` 100000 x `model.lstm_cell_size` 1024 / `model.max_seq_len` 1)";
    refused(
        build("PPO", settings(1)),
        &["`rollout_fragment_length` is 100000, but the run would need", expected],
    );
    // A sequence ends with its fragment, so a longer one needs nothing more.
    let small =
        |max_seq_len| json!({"num_workers": 0, "rollout_fragment_length": 10, "model": model(max_seq_len)});
    build("PPO", small(u64::MAX)).expect("it fits");
}

#[test]
fn counts_that_no_machine_can_serve_are_refused_by_their_rule() {
    for (algorithm, settings, expected) in [
        (
            "PPO",
            json!({"num_workers": 1e5 as u64}),
            "`num_workers` is 100000, but it must be at most 4096: each is a thread;",
        ),
        (
            "PPO",
            json!({"workers": "procs:99999"}),
            "`num_workers` is 99999, but it must be at most 4096: each is a process;",
        ),
        (
            "PPO",
            json!({"workers": "ray:99999"}),
            "`num_workers` is 99999, but it must be at most 4096: each is an actor on the cluster;",
        ),
        (
            "PPO",
            json!({"evaluation_num_workers": 1e5 as u64}),
            "`evaluation_num_workers` is 100000, but it must be at most 4096: each is",
        ),
        (
            "DQN",
            json!({"n_step": 1e9 as u64}),
            "`n_step` is 1000000000, but it must be at most 50000 (`replay",
        ),
    ] {
        refused(build(algorithm, settings), &[expected]);
    }
}

/// What `pavlov train` does before its first iteration.
fn build(algorithm: &str, settings: Value) -> Result<(), String> {
    let env = match algorithm {
        "SAC" | "TD3" | "DDPG" => "Pendulum-v1",
        "QMIX" => "simple_spread_v3",
        _ => "CartPole-v1",
    };
    let options = RunOptions { loggers: LoggerChoice::None, ..RunOptions::default() };
    let entry = registry::algorithm(algorithm).unwrap();
    entry.build(env.into(), object(settings), options).map(drop).map_err(|error| error.to_string())
}
