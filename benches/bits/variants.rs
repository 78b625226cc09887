//! The cases: an algorithm's small settings, and the variants that each change some of them.

use serde_json::{Value, json};

/// A variant's name, its environment, what it changes.
pub(crate) type Variant = (&'static str, &'static str, Value);

const CARTPOLE: &str = "CartPole-v1";
const PENDULUM: &str = "Pendulum-v1";

/// The environment `turns` with two policies, one of them for two of its agents.
fn turns(changes: Value) -> Value {
    two_policies("a", changes)
}

/// A board game with two policies. It has legal and illegal moves.
fn board_game(changes: Value) -> Value {
    let mut settings = two_policies("player_1", changes);
    settings["mask_actions"] = true.into();
    settings
}

fn two_policies(agent_of_the_first: &str, changes: Value) -> Value {
    let mut settings = json!({
        "multiagent.policies": ["first", "second"],
        "multiagent.policy_mapping_fn": {agent_of_the_first: "first", "*": "second"},
    });
    let all = settings.as_object_mut().expect("an object");
    all.extend(changes.as_object().expect("an object").clone());
    settings
}

pub(crate) fn ppo() -> Vec<Variant> {
    let memory = |kind: &str| json!({kind: true, "model.lstm_cell_size": 11, "model.max_seq_len": 7});
    let lstm_with_filter = json!({
        "model.use_lstm": true, "model.lstm_cell_size": 11, "model.max_seq_len": 7,
        "observation_filter": "MeanStdFilter",
    });
    vec![
        ("default", CARTPOLE, json!({})),
        // Many pieces on both engines.
        (
            "large_minibatch",
            CARTPOLE,
            json!({"sgd_minibatch_size": 6000, "train_batch_size": 6000, "rollout_fragment_length": 1500}),
        ),
        ("short_episodes", "cut CartPole", json!({"kl_coeff": 0.0})),
        ("shared", CARTPOLE, json!({"model.vf_share_layers": true})),
        ("continuous", PENDULUM, json!({})),
        ("free_log_std", PENDULUM, json!({"model.free_log_std": true, "vf_clip": "none"})),
        ("several_choices", "choices", json!({})),
        ("several_components", "components", json!({"model.free_log_std": true, "entropy_coeff": 0.01})),
        ("no_kl_penalty", CARTPOLE, json!({"kl_coeff": 0.0})),
        ("minibatch_advantages", CARTPOLE, json!({"normalize_advantages": "minibatch"})),
        ("raw_advantages", CARTPOLE, json!({"normalize_advantages": "none"})),
        ("around_old", CARTPOLE, json!({"vf_clip": "around_old", "vf_clip_param": 0.2, "grad_clip": 0.5})),
        ("filter", PENDULUM, json!({"observation_filter": "MeanStdFilter"})),
        ("complete_episodes", CARTPOLE, json!({"batch_mode": "complete_episodes"})),
        (
            "no_gae",
            CARTPOLE,
            json!({"batch_mode": "complete_episodes", "use_gae": false, "use_critic": false}),
        ),
        ("orthogonal", CARTPOLE, json!({"model.fcnet_initializer": "orthogonal"})),
        ("layers", CARTPOLE, json!({"model.post_fcnet_hiddens": [13, 9], "model.vf_share_layers": true})),
        (
            "libtorch_layers",
            CARTPOLE,
            json!({
                "model.fcnet_activation": "swish", "model.post_fcnet_hiddens": [13],
                "model.post_fcnet_activation": "elu",
            }),
        ),
        (
            "no_final_linear",
            CARTPOLE,
            json!({"model.no_final_linear": true, "model.fcnet_activation": "relu"}),
        ),
        (
            "schedules",
            CARTPOLE,
            json!({
                "lr_schedule": [[0, 0.01], [3000, 0.001]], "entropy_coeff_schedule": [[0, 0.02], [4000, 0.0]],
                "clip_param_schedule": [[0, 0.3], [4000, 0.1]],
            }),
        ),
        ("target_kl", CARTPOLE, json!({"target_kl": 0.005, "lr": 0.01, "num_sgd_iter": 6})),
        (
            "clipped_rewards",
            PENDULUM,
            json!({"clip_rewards": true, "normalize_actions": false, "clip_actions": true}),
        ),
        ("sample_async", CARTPOLE, json!({"sample_async": true})),
        ("frozen_lake", "FrozenLake-v1", json!({})),
        ("frozen_lake_filter", "FrozenLake-v1", json!({"observation_filter": "MeanStdFilter"})),
        ("taxi", "Taxi-v4", json!({"model.vf_share_layers": true})),
        ("blackjack", "Blackjack-v1", json!({})),
        ("masks", "Taxi-v4", json!({"mask_actions": true})),
        ("gru", "cut CartPole", memory("model.use_gru")),
        ("lstm", "cut CartPole", memory("model.use_lstm")),
        ("lstm_continuous", "components", lstm_with_filter),
        ("together", "simple_spread_v3", json!({"multiagent.observation_fn": "global_state"})),
        ("turns", "turns", turns(json!({"observation_filter": "MeanStdFilter"}))),
        ("turns_complete_episodes", "turns", turns(json!({"batch_mode": "complete_episodes"}))),
        ("turns_lstm", "turns", turns(memory("model.use_lstm"))),
        ("turns_agent_steps", "turns", turns(json!({"multiagent.count_steps_by": "agent_steps"}))),
        ("board_game", "tictactoe_v3", board_game(json!({}))),
        ("board_game_rotated", "tictactoe_v3", board_game(json!({"multiagent.rotate_policies": true}))),
        ("board_game_gru", "tictactoe_v3", board_game(memory("model.use_gru"))),
    ]
}

pub(crate) fn dqn() -> Vec<Variant> {
    let uniform = "replay_buffer_config.type";
    vec![
        ("default", CARTPOLE, json!({})),
        ("plain", CARTPOLE, json!({"dueling": false, "double_q": false})),
        ("double", CARTPOLE, json!({"dueling": false})),
        ("uniform", CARTPOLE, json!({uniform: "ReplayBuffer"})),
        // Several pieces on both engines.
        ("large_batch", CARTPOLE, json!({"train_batch_size": 1100, "replay_buffer_config.capacity": 1200})),
        ("short_episodes", "cut CartPole", json!({uniform: "ReplayBuffer"})),
        ("n_step", "cut CartPole", json!({"n_step": 3})),
        ("atoms", CARTPOLE, json!({"num_atoms": 11, "v_min": 0.0, "v_max": 20.0})),
        ("plain_atoms", CARTPOLE, json!({"num_atoms": 11, "dueling": false, "double_q": false})),
        ("noisy", CARTPOLE, json!({"noisy": true})),
        ("rainbow", CARTPOLE, json!({"noisy": true, "num_atoms": 11, "n_step": 3})),
        ("worker_priorities", CARTPOLE, json!({"worker_side_prioritization": true})),
        ("soft_q", CARTPOLE, json!({"exploration_config": {"type": "SoftQ", "temperature": 0.5}})),
        ("random", CARTPOLE, json!({"exploration_config": {"type": "Random"}})),
        (
            "epsilon_per_worker",
            CARTPOLE,
            json!({"exploration_config": {"type": "PerWorkerEpsilonGreedy", "epsilon_timesteps": 500}}),
        ),
        ("no_grad_clip", CARTPOLE, json!({"grad_clip": null})),
        ("small_grad_clip", CARTPOLE, json!({"grad_clip": 0.1})),
        ("intensity", CARTPOLE, json!({"training_intensity": 8.0})),
        ("schedule", CARTPOLE, json!({"lr_schedule": [[0, 0.01], [900, 0.001]]})),
        ("filter", CARTPOLE, json!({"observation_filter": "MeanStdFilter"})),
        ("no_head_layers", CARTPOLE, json!({"hiddens": []})),
        ("frozen_lake", "FrozenLake-v1", json!({"train_batch_size": 300})),
        ("taxi", "Taxi-v4", json!({})),
        ("masks", "Taxi-v4", json!({"mask_actions": true})),
        ("turns", "turns", turns(json!({"n_step": 2}))),
        ("board_game", "tictactoe_v3", board_game(json!({"worker_side_prioritization": true}))),
        (
            "board_game_rotated",
            "tictactoe_v3",
            board_game(json!({uniform: "ReplayBuffer", "multiagent.rotate_policies": true})),
        ),
    ]
}

pub(crate) fn sac() -> Vec<Variant> {
    let prioritized = json!({
        "replay_buffer_config.type": "PrioritizedReplayBuffer", "n_step": 3, "training_intensity": 90.0,
        "twin_q": false, "critic_loss": "mse", "grad_clip": 1.0,
    });
    let quantiles = json!({
        "n_quantiles": 5, "n_critics": 3, "optimization.weight_decay": 0.01,
        "q_model_config": {"fcnet_hiddens": [12, 12], "architecture": "simba"},
        "policy_model_config.layer_norm": true,
    });
    let noise = json!({
        "exploration_config": {"type": "GaussianNoise", "random_timesteps": 100},
        "observation_filter": "MeanStdFilter",
    });
    vec![
        ("default", PENDULUM, json!({})),
        ("discrete", CARTPOLE, json!({})),
        ("prioritized", PENDULUM, prioritized),
        ("quantiles", PENDULUM, quantiles),
        ("noise", "components", noise),
        ("masks", "Taxi-v4", json!({"mask_actions": true})),
        ("turns", "turns", turns(json!({}))),
    ]
}

pub(crate) fn td3() -> Vec<Variant> {
    vec![
        ("default", PENDULUM, json!({})),
        ("delay_target", PENDULUM, json!({"delay_target": true, "policy_delay": 3, "n_step": 3})),
    ]
}

pub(crate) fn ddpg() -> Vec<Variant> {
    vec![
        ("default", PENDULUM, json!({})),
        ("huber", "components", json!({"use_huber": true, "grad_clip": 1.0})),
    ]
}

pub(crate) fn impala() -> Vec<Variant> {
    let passes = json!({
        "num_sgd_iter": 2, "minibatch_buffer_size": 2, "replay_proportion": 1.5, "replay_buffer_num_slots": 3,
        "opt_type": "rmsprop", "broadcast_interval": 2,
    });
    let lstm = json!({"model.use_lstm": true, "model.lstm_cell_size": 11, "model.max_seq_len": 7});
    vec![
        ("default", CARTPOLE, json!({})),
        ("continuous", PENDULUM, json!({})),
        ("passes", "cut CartPole", passes),
        ("lstm", "cut CartPole", lstm),
        ("complete_episodes", "cut CartPole", json!({"batch_mode": "complete_episodes"})),
        ("turns", "turns", turns(json!({}))),
    ]
}

pub(crate) fn qmix() -> Vec<Variant> {
    let spread = "simple_spread_v3";
    let teams = json!({
        "multiagent.agent_groups": {"agent_0": "a", "agent_1": "a", "*": "b"},
        "multiagent.policies": {"first": {"mixer": "vdn"}, "second": {}},
        "multiagent.policy_mapping_fn": {"a": "first", "b": "second"},
    });
    let prioritized = json!({
        "replay_buffer_config.type": "PrioritizedReplayBuffer", "n_step": 3, "double_q": false,
    });
    vec![
        ("default", spread, json!({})),
        ("vdn", spread, json!({"mixer": "vdn"})),
        ("alone", spread, json!({"mixer": null})),
        ("prioritized", spread, prioritized),
        ("teams", spread, teams),
        ("board_game", "tictactoe_v3", json!({"mask_actions": true})),
    ]
}

/// Variants of which actions for fixed observations are hashed, too, and episodes of evaluation and play.
pub(crate) const ACTING: [&str; 11] = [
    "PPO/default",
    "PPO/filter",
    "PPO/several_choices",
    "PPO/frozen_lake",
    "DQN/default",
    "DQN/noisy",
    "DQN/soft_q",
    "DQN/frozen_lake",
    "SAC/default",
    "SAC/discrete",
    "TD3/default",
];

/// Variants of which only such episodes are hashed, too.
pub(crate) const PLAYING: [&str; 8] = [
    "PPO/lstm",
    "PPO/gru",
    "PPO/turns",
    "PPO/board_game_rotated",
    "PPO/board_game_gru",
    "DQN/turns",
    "IMPALA/turns",
    "QMIX/default",
];

/// Odd widths, so that vectors have tails; 4 rounds of 400 steps, minibatches of 640, 640 and 320 rows.
pub(crate) fn small_ppo() -> Value {
    json!({
        "lr": 0.003, "num_sgd_iter": 2, "sgd_minibatch_size": 640, "train_batch_size": 1600,
        "rollout_fragment_length": 100, "model.fcnet_hiddens": [37, 20],
    })
}

/// 60 learning steps; the buffer overflows.
pub(crate) fn small_dqn() -> Value {
    json!({
        "lr": 0.003, "train_batch_size": 50, "min_sample_timesteps_per_reporting": 320, "hiddens": [19],
        "model.fcnet_hiddens": [37, 20], "target_network_update_freq": 200,
        "replay_buffer_config.capacity": 500, "replay_buffer_config.learning_starts": 100,
        "exploration_config": {
            "type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.3, "epsilon_timesteps": 800,
        },
    })
}

/// 220 learning steps of a default run; the buffer overflows.
pub(crate) fn small_sac() -> Value {
    json!({
        "train_batch_size": 50, "min_sample_timesteps_per_reporting": 320, "tau": 0.02,
        "optimization.actor_learning_rate": 0.003, "optimization.critic_learning_rate": 0.003,
        "policy_model_config.fcnet_hiddens": [37, 20], "q_model_config.fcnet_hiddens": [29, 20],
        "replay_buffer_config.capacity": 500, "replay_buffer_config.learning_starts": 100,
    })
}

/// For TD3 and DDPG. The buffer overflows.
pub(crate) fn small_ddpg() -> Value {
    json!({
        "train_batch_size": 50, "min_sample_timesteps_per_reporting": 320, "tau": 0.02,
        "actor_hiddens": [37, 20], "critic_hiddens": [29, 20], "exploration_config.random_timesteps": 100,
        "replay_buffer_config.capacity": 500, "replay_buffer_config.learning_starts": 100,
    })
}

/// 4 batches of 400 steps in each iteration.
pub(crate) fn small_impala() -> Value {
    json!({
        "lr": 0.003, "rollout_fragment_length": 25, "train_batch_size": 400, "model.fcnet_hiddens": [37, 20],
        "min_sample_timesteps_per_reporting": 1600,
    })
}

/// The buffer overflows.
pub(crate) fn small_qmix() -> Value {
    json!({
        "lr": 0.003, "train_batch_size": 50, "min_sample_timesteps_per_reporting": 320, "mixing_embed_dim": 7,
        "target_network_update_freq": 200, "model.fcnet_hiddens": [37, 20],
        "replay_buffer_config.capacity": 500, "replay_buffer_config.learning_starts": 100,
        "exploration_config": {
            "type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.3, "epsilon_timesteps": 800,
        },
    })
}
