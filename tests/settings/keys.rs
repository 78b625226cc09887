//! Defaults, Ray's keys, and keys that do not exist.

use pavlov::prelude::*;
use pavlov::trainer::{resolve, to_config};
use serde_json::{Value, json};

use super::{cartpole, dqn, object, ppo};
use crate::support::{at, refused};

/// Every key of Ray 1.13's COMMON_CONFIG, the deprecated ones included.
const RAYS_KEYS: &str = "
    num_workers num_envs_per_worker create_env_on_driver rollout_fragment_length batch_mode ignore_worker_failures
    recreate_failed_workers gamma lr train_batch_size model optimizer horizon soft_horizon no_done_at_end env
    observation_space action_space env_config remote_worker_envs remote_env_batch_wait_ms env_task_fn render_env
    record_env clip_rewards normalize_actions clip_actions preprocessor_pref log_level callbacks log_sys_usage
    fake_sampler framework eager_tracing eager_max_retraces explore exploration_config evaluation_interval
    evaluation_duration evaluation_duration_unit evaluation_parallel_to_training in_evaluation evaluation_config
    evaluation_num_workers custom_eval_function always_attach_evaluation_results keep_per_episode_custom_metrics
    sample_async sample_collector observation_filter synchronize_filters tf_session_args local_tf_session_args
    compress_observations metrics_episode_collection_timeout_s metrics_num_episodes_for_smoothing
    min_time_s_per_reporting min_sample_timesteps_per_reporting min_train_timesteps_per_reporting seed
    extra_python_environs_for_driver extra_python_environs_for_worker num_gpus _fake_gpus num_cpus_per_worker
    num_gpus_per_worker custom_resources_per_worker num_cpus_for_driver placement_strategy input input_config
    actions_in_input_normalized input_evaluation postprocess_inputs shuffle_buffer_size output output_config
    output_compress_columns output_max_file_size multiagent logger_config _tf_policy_handles_more_than_one_loss
    _disable_preprocessor_api _disable_action_flattening _disable_execution_plan_api disable_env_checking
    simple_optimizer monitor evaluation_num_episodes metrics_smoothing_episodes timesteps_per_iteration
    min_iter_time_s collect_metrics_timeout";

/// Every key of Ray 1.13's MODEL_DEFAULTS.
const RAYS_MODEL_KEYS: &str = "
    fcnet_hiddens fcnet_activation conv_filters conv_activation post_fcnet_hiddens post_fcnet_activation
    free_log_std no_final_linear vf_share_layers max_seq_len use_lstm lstm_cell_size lstm_use_prev_action
    lstm_use_prev_reward _time_major use_attention attention_num_transformer_units attention_dim
    attention_num_heads attention_head_dim attention_memory_inference attention_memory_training
    attention_position_wise_mlp_dim attention_init_gru_gate_bias attention_use_n_prev_actions
    attention_use_n_prev_rewards framestack dim grayscale zero_mean custom_model custom_model_config
    custom_action_dist custom_preprocessor _use_default_native_models _disable_preprocessor_api
    _disable_action_flattening";

/// The settings are these, and `differing` of them are not Ray's for the reason given there.
#[track_caller]
fn assert_defaults<T: Trainer>(rays: Value, differing: Value) {
    let ours = to_config(&T::get_default_config()).expect("an object");
    for (path, ray) in object(rays) {
        let wanted = differing.get(&path).unwrap_or(&ray);
        let found = at(&ours, &path);
        let equal = match (found.as_f64(), wanted.as_f64()) {
            (Some(found), Some(wanted)) => found == wanted,
            _ => found == wanted,
        };
        assert!(equal, "{}: `{path}` is {found}, Ray's is {ray}", T::NAME);
        assert!(differing.get(&path) != Some(&ray), "`{path}` does not differ");
    }
}

/// Appendix A.1, and the common keys that PPO leaves alone (section 5.5).
#[test]
fn ppo_defaults_are_rays() {
    assert_defaults::<Ppo>(
        json!({
            "use_critic": true, "use_gae": true, "lambda": 1.0, "kl_coeff": 0.2, "rollout_fragment_length": 200,
            "train_batch_size": 4000, "sgd_minibatch_size": 128, "num_sgd_iter": 30, "lr": 5e-5,
            "lr_schedule": null, "vf_loss_coeff": 1.0, "model.vf_share_layers": false, "entropy_coeff": 0.0,
            "entropy_coeff_schedule": null, "clip_param": 0.3, "vf_clip_param": 10.0, "grad_clip": null,
            "kl_target": 0.01, "batch_mode": "truncate_episodes", "observation_filter": "NoFilter",
            "adam_epsilon": 1e-8
        }),
        json!({}),
    );
    assert_defaults::<Ppo>(
        json!({
            "num_workers": 2, "num_envs_per_worker": 1, "create_env_on_driver": false, "gamma": 0.99,
            "ignore_worker_failures": false, "recreate_failed_workers": false, "env_config": {},
            "clip_rewards": null, "normalize_actions": true, "clip_actions": false, "log_sys_usage": true,
            "explore": true, "exploration_config.type": "StochasticSampling", "evaluation_interval": null,
            "evaluation_duration": 10, "evaluation_duration_unit": "episodes", "evaluation_num_workers": 0,
            "evaluation_parallel_to_training": false, "sample_async": false, "always_attach_evaluation_results": false,
            "keep_per_episode_custom_metrics": false, "synchronize_filters": true,
            "metrics_num_episodes_for_smoothing": 100, "min_time_s_per_reporting": null,
            "min_sample_timesteps_per_reporting": null, "min_train_timesteps_per_reporting": null, "seed": null,
            "num_gpus": 0, "num_cpus_per_worker": 1, "num_cpus_for_driver": 1, "disable_env_checking": false,
            "model.fcnet_hiddens": [256, 256], "model.fcnet_activation": "tanh", "model.post_fcnet_hiddens": [],
            "model.post_fcnet_activation": "relu", "model.free_log_std": false, "model.no_final_linear": false
        }),
        // Reading the load of the machine is no part of training; who wants it asks for it.
        json!({"log_sys_usage": false}),
    );
}

/// What Ray 1.13 has in `sac.py`, `ddpg.py` and `td3.py`.
#[test]
fn defaults_of_sac_ddpg_and_td3_are_rays() {
    let ours = json!({
        // A restored run continues exactly; without the buffer it would relearn from nothing.
        "store_buffer_in_checkpoints": true,
        // Iterations that depend on the clock are not repeatable.
        "min_time_s_per_reporting": null
    });
    let shared = json!({
        "n_step": 1, "gamma": 0.99, "training_intensity": null, "rollout_fragment_length": 1, "grad_clip": null,
        "target_network_update_freq": 0, "num_workers": 0, "store_buffer_in_checkpoints": false,
        "min_time_s_per_reporting": 1, "replay_buffer_config.prioritized_replay_alpha": 0.6,
        "replay_buffer_config.prioritized_replay_beta": 0.4, "replay_buffer_config.prioritized_replay_eps": 1e-6
    });
    let with = |own: Value| {
        let mut all = object(shared.clone());
        all.extend(object(own));
        Value::from(all)
    };
    assert_defaults::<Sac>(
        with(json!({
            "twin_q": true, "tau": 0.005, "initial_alpha": 1.0, "target_entropy": null, "train_batch_size": 256,
            "optimization.actor_learning_rate": 3e-4, "optimization.critic_learning_rate": 3e-4,
            "optimization.entropy_learning_rate": 3e-4, "policy_model_config.fcnet_hiddens": [256, 256],
            "q_model_config.fcnet_hiddens": [256, 256], "replay_buffer_config.capacity": 1_000_000,
            "replay_buffer_config.learning_starts": 1500, "exploration_config.type": "StochasticSampling",
            "exploration_config.random_timesteps": 0, "min_sample_timesteps_per_reporting": 100,
            "critic_loss": "huber"
        })),
        ours.clone(),
    );
    assert_defaults::<Ddpg>(
        with(json!({
            "twin_q": false, "policy_delay": 1, "smooth_target_policy": false, "target_noise": 0.2,
            "target_noise_clip": 0.5, "actor_hiddens": [400, 300], "actor_hidden_activation": "relu",
            "critic_hiddens": [400, 300], "critic_hidden_activation": "relu", "critic_lr": 1e-3, "actor_lr": 1e-3,
            "tau": 0.002, "use_huber": false, "huber_threshold": 1.0, "l2_reg": 1e-6, "train_batch_size": 256,
            "replay_buffer_config.capacity": 50_000, "replay_buffer_config.learning_starts": 1500,
            "replay_buffer_config.type": "PrioritizedReplayBuffer", "min_sample_timesteps_per_reporting": 1000,
            "exploration_config.type": "OrnsteinUhlenbeckNoise", "exploration_config.random_timesteps": 1000,
            "exploration_config.ou_base_scale": 0.1, "exploration_config.ou_theta": 0.15,
            "exploration_config.ou_sigma": 0.2, "exploration_config.initial_scale": 1.0,
            "exploration_config.final_scale": 0.02, "exploration_config.scale_timesteps": 10_000,
            // Ray's target moves after every step.
            "delay_target": false
        })),
        ours.clone(),
    );
    assert_defaults::<Td3>(
        with(json!({
            "twin_q": true, "policy_delay": 2, "smooth_target_policy": true, "target_noise": 0.2,
            "target_noise_clip": 0.5, "actor_hiddens": [400, 300], "critic_hiddens": [400, 300], "critic_lr": 1e-3,
            "actor_lr": 1e-3, "tau": 0.005, "use_huber": false, "l2_reg": 0.0, "train_batch_size": 100,
            "replay_buffer_config.capacity": 1_000_000, "replay_buffer_config.learning_starts": 10_000,
            "replay_buffer_config.type": "ReplayBuffer", "exploration_config.type": "GaussianNoise",
            "exploration_config.random_timesteps": 10_000, "exploration_config.stddev": 0.1,
            "exploration_config.initial_scale": 1.0, "exploration_config.final_scale": 1.0, "delay_target": false
        })),
        ours,
    );
}

/// As a library's user reads settings: with serde, without the layers of settings files.
#[test]
fn settings_that_serde_reads_have_the_algorithms_own_defaults() {
    fn assert_own<T: Trainer>(given: Value) {
        let whole =
            resolve(&T::get_default_config(), &object(given.clone()), &cartpole()).expect("settings").0;
        let read: T = serde_json::from_value(given.clone()).expect("settings");
        let [read, whole] = [read, whole].map(|settings| to_config(&settings).expect("an object"));
        assert_eq!(read, whole, "{} of {given}", T::NAME);
    }
    for given in [
        json!({}),
        json!({"gamma": 0.5, "seed": 3, "model": {"fcnet_hiddens": [8]}, "env_config": {"any": {"thing": 1}}}),
    ] {
        assert_own::<Ppo>(given.clone());
        assert_own::<Dqn>(given.clone());
        assert_own::<Impala>(given.clone());
        assert_own::<Sac>(given.clone());
        assert_own::<Ddpg>(given.clone());
        assert_own::<Td3>(given.clone());
        assert_own::<Qmix>(given);
    }
    // Objects are merged, unless they are of another type.
    let buffer = json!({"replay_buffer_config": {"capacity": 9}, "tau": 0.5});
    assert_own::<Ddpg>(buffer.clone());
    assert_own::<Td3>(buffer);
    let noise = json!({"exploration_config": {"stddev": 0.4}});
    assert_own::<Td3>(noise);
    assert_own::<Ddpg>(json!({"exploration_config": {"type": "GaussianNoise", "stddev": 0.4}}));
    assert_own::<Sac>(json!({"optimization": {"actor_learning_rate": 0.5}}));
    assert!(serde_json::from_value::<Td3>(json!({})).expect("settings").twin_q);
}

#[test]
fn names_that_are_no_settings_are_refused_whoever_reads_them() {
    let read = |text: &str| serde_json::from_str::<Ppo>(text);
    refused(
        read(r#"{"learning_rate": 0.5}"#),
        &["there is no setting `learning_rate`; its name here is `lr`"],
    );
    refused(read(r#"{"entropy_coef": 0.5}"#), &["there is no setting `entropy_coef`", "`entropy_coeff`"]);
    refused(
        read(r#"{"model": {"fcnet_hidens": [8]}}"#),
        &["there is no setting `model.fcnet_hidens`; `fcnet_hiddens` may be meant"],
    );
    refused(read(r#"{"lr": 0.5, "lr": 0.1}"#), &["the setting `lr` is given twice"]);
    refused(serde_json::from_str::<Td3>(r#"{"lr": 0.5}"#), &["there is no setting `lr`"]);
    refused(toml::from_str::<Dqn>("gama = 0.5"), &["there is no setting `gama`; `gamma` may be meant"]);
}

#[test]
fn settings_are_read_from_json_and_toml_with_all_mistakes_at_once() {
    let json = Ppo::from_json(r#"{"lr": 0.5, "num_workers": 0, "model": {"fcnet_hiddens": [8]}}"#);
    let json = json.expect("settings");
    assert_eq!((json.lr, json.common.num_workers, json.clip_param), (0.5, 0, 0.3));
    let toml = Ppo::from_toml("lr = 0.5\nnum_workers = 0\n[model]\nfcnet_hiddens = [8]").expect("settings");
    assert_eq!(json, toml);
    let mistakes = r#"{"learning_rate": 0.5, "gamma": "high", "model": {"fcnet_hidens": [8]}}"#;
    refused(Ppo::from_json(mistakes), &["`lr`", "`gamma` is \"high\"", "`model.fcnet_hidens`"]);
    refused(Ppo::from_toml("learning_rate = 0.5"), &["its name here is `lr`"]);
    refused(Ppo::from_json(r#"{"env": "CartPole-v1"}"#), &["`env`", "give it to `build`"]);
    refused(Ppo::from_json("[]"), &["JSON", "it must be an object"]);
    refused(Ppo::from_toml("lr ="), &["it must be TOML"]);
}

#[test]
fn settings_of_the_wrong_kind_name_their_key_whoever_reads_them() {
    let sac = serde_json::from_value::<Sac>(json!({"optimization": {"actor_learning_rat": 1}}));
    assert!(sac.expect_err("refused").to_string().contains("unknown field `actor_learning_rat`"));
    refused(
        resolve(&Td3::default(), &object(json!({"actor_hiddens": [4, "x"]})), &cartpole()),
        &["`actor_hiddens[1]`"],
    );
}

/// What Ray 1.13 has in `qmix.py`, without what is about sequences.
#[test]
fn defaults_of_qmix_are_rays() {
    assert_defaults::<Qmix>(
        json!({
            "mixer": "qmix", "mixing_embed_dim": 32, "double_q": true, "optim_alpha": 0.99, "optim_eps": 1e-5,
            "lr": 5e-4, "grad_clip": 10.0, "train_batch_size": 32, "rollout_fragment_length": 4, "num_workers": 0,
            "target_network_update_freq": 500, "replay_buffer_config.learning_starts": 1000,
            "replay_buffer_config.type": "ReplayBuffer", "exploration_config.type": "EpsilonGreedy",
            "exploration_config.initial_epsilon": 1.0, "exploration_config.final_epsilon": 0.01,
            "exploration_config.epsilon_timesteps": 40_000, "min_sample_timesteps_per_reporting": 1000,
            "store_buffer_in_checkpoints": false
        }),
        // A restored run continues exactly; without the buffer it would relearn from nothing.
        json!({"store_buffer_in_checkpoints": true}),
    );
}

/// Appendix A.7 over A.6.
#[test]
fn dqn_defaults_are_rays() {
    assert_defaults::<Dqn>(
        json!({
            "num_atoms": 1, "v_min": -10.0, "v_max": 10.0, "noisy": false, "sigma0": 0.5, "dueling": true,
            "hiddens": [256], "double_q": true, "n_step": 1, "training_intensity": null,
            "worker_side_prioritization": false,
            "replay_buffer_config.type": "MultiAgentPrioritizedReplayBuffer",
            "replay_buffer_config.capacity": 50_000, "replay_buffer_config.prioritized_replay_alpha": 0.6,
            "replay_buffer_config.prioritized_replay_beta": 0.4,
            "replay_buffer_config.prioritized_replay_eps": 1e-6, "replay_buffer_config.learning_starts": 1000,
            "store_buffer_in_checkpoints": false, "exploration_config.type": "EpsilonGreedy",
            "exploration_config.initial_epsilon": 1.0, "exploration_config.final_epsilon": 0.02,
            "exploration_config.epsilon_timesteps": 10_000, "evaluation_config.explore": false,
            "min_sample_timesteps_per_reporting": 1000, "target_network_update_freq": 500, "lr": 5e-4,
            "lr_schedule": null, "adam_epsilon": 1e-8, "grad_clip": 40, "rollout_fragment_length": 4,
            "train_batch_size": 32, "num_workers": 0, "min_time_s_per_reporting": 1,
            "model.vf_share_layers": true
        }),
        json!({
            // One agent; Ray's name is taken as well.
            "replay_buffer_config.type": "PrioritizedReplayBuffer",
            // A restored run continues exactly; without the buffer it would relearn from nothing.
            "store_buffer_in_checkpoints": true,
            // Iterations that depend on the clock are not repeatable.
            "min_time_s_per_reporting": null
        }),
    );
}

#[test]
fn impala_defaults_are_rays() {
    assert_defaults::<Impala>(
        json!({
            "vtrace_clip_rho_threshold": 1.0, "vtrace_clip_pg_rho_threshold": 1.0, "rollout_fragment_length": 50,
            "train_batch_size": 500, "num_workers": 2, "num_gpus": 1, "num_sgd_iter": 1, "replay_proportion": 0.0,
            "minibatch_buffer_size": 1, "learner_queue_size": 16, "replay_buffer_num_slots": 0, "max_sample_requests_in_flight_per_worker": 2, "broadcast_interval": 1,
            "grad_clip": 40.0, "opt_type": "adam", "lr": 5e-4, "lr_schedule": null, "decay": 0.99, "momentum": 0.0,
            "epsilon": 0.1, "vf_loss_coeff": 0.5, "entropy_coeff": 0.01, "entropy_coeff_schedule": null,
            "min_time_s_per_reporting": 10
        }),
        json!({
            // Most machines have none.
            "num_gpus": 0,
            // With a learner thread a run does not repeat.
            "learner_queue_size": 0,
            // Iterations that depend on the clock are not repeatable.
            "min_time_s_per_reporting": null
        }),
    );
}

#[test]
fn every_common_key_of_rays_is_a_setting_or_refused_with_a_reason() {
    let common = to_config(&Ppo::get_default_config()).expect("an object");
    for key in RAYS_KEYS.split_whitespace() {
        let value = common.get(key).cloned().unwrap_or(json!(7));
        let value = if key == "env" { json!("CartPole-v1") } else { value };
        match resolve(&Ppo::get_default_config(), &object(json!({ key: value })), &cartpole()) {
            Ok(_) => assert!(common.contains_key(key) || key == "env", "{key} is swallowed"),
            Err(error) => {
                let text = error.to_string();
                let start = format!("`{key}` is 7, but this setting of Ray's has no meaning here: ");
                assert!(text.starts_with(&start) && text.len() > start.len() + 10, "{key}: {text}");
            }
        }
    }
}

#[test]
fn every_model_key_of_rays_is_a_setting_or_refused_with_a_reason() {
    let model = to_config(&Ppo::get_default_config()).expect("an object")["model"].clone();
    for key in RAYS_MODEL_KEYS.split_whitespace() {
        let config = json!({"model": {key: model.get(key).cloned().unwrap_or(json!(7))}});
        match resolve(&Ppo::get_default_config(), &object(config), &cartpole()) {
            Ok(_) => assert!(model.get(key).is_some(), "{key} is swallowed"),
            Err(error) => {
                let start = format!("`model.{key}` is 7, but this setting of Ray's has no meaning here: ");
                assert!(error.to_string().starts_with(&start), "{key}: {error}");
            }
        }
    }
}

#[test]
fn unknown_keys_name_the_nearest() {
    for (config, key, nearest) in [
        (json!({"num_worker": 1}), "num_worker", "num_workers"),
        (json!({"clip_parm": 0.2}), "clip_parm", "clip_param"),
        (json!({"model": {"fcnet_hidens": [8]}}), "model.fcnet_hidens", "model.fcnet_hiddens"),
        // It exists one level down.
        (json!({"fcnet_hiddens": [8]}), "fcnet_hiddens", "model.fcnet_hiddens"),
        (
            json!({"evaluation_config": {"explor": true}}),
            "evaluation_config.explor",
            "evaluation_config.explore",
        ),
    ] {
        let text = format!("unknown setting `{key}` (from config); nearest: `{nearest}`");
        refused(ppo(config), &[&text]);
    }
    refused(dqn(json!({"duelling": false})), &["unknown setting `duelling`", "nearest: `dueling`"]);
}

#[test]
fn unknown_keys_are_refused_where_a_type_was_changed_too() {
    // The old type's keys are gone then, so the overlay cannot know the new one's.
    let soft = json!({"exploration_config": {"type": "SoftQ", "temprature": 0.5}});
    let text = "but there is no setting `temprature` in it; expected `temperature`";
    refused(dqn(soft), &["`exploration_config` is {", text]);
    let replay = json!({"replay_buffer_config": {"type": "ReplayBuffer", "capcity": 5000}});
    refused(dqn(replay), &["no setting `capcity` in it; expected one of `type`, `capacity`, "]);
    let right = json!({"exploration_config": {"type": "SoftQ", "temperature": 0.5}});
    assert!(dqn(right).is_ok());
}

#[test]
fn any_key_may_stand_in_env_config() {
    let settings =
        ppo(json!({"env_config": {"gravity": 1.0}, "evaluation_config": {"env_config": {"x": 2}}}));
    assert_eq!(settings.expect("open keys").common.env_config["gravity"], 1.0);
}

#[test]
fn rays_names_of_algorithm_keys_say_where_they_went() {
    refused(
        ppo(json!({"shuffle_sequences": false})),
        &["`shuffle_sequences` is false", "rows are always shuffled"],
    );
    for key in [
        "before_learn_on_batch",
        "prioritized_replay",
        "prioritized_replay_alpha",
        "prioritized_replay_beta",
        "prioritized_replay_eps",
        "final_prioritized_replay_beta",
        "prioritized_replay_beta_annealing_timesteps",
        "replay_sequence_length",
    ] {
        refused(
            dqn(json!({key: 7})),
            &[&format!("`{key}` is 7, but this setting of Ray's has no meaning here: ")],
        );
    }
    refused(dqn(json!({"buffer_size": 1})), &["its name here is `replay_buffer_config.capacity`"]);
    refused(dqn(json!({"learning_starts": 1})), &["its name here is `replay_buffer_config.learning_starts`"]);
    let taken = dqn(json!({"replay_buffer_config": {"type": "MultiAgentReplayBuffer"}})).expect("Ray's name");
    let config = to_config(&taken).expect("an object");
    assert_eq!(config["replay_buffer_config"]["type"], "ReplayBuffer");
}
