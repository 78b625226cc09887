//! Settings: Ray's defaults, Ray's keys, the rules with their words, batch arithmetic, seeds.

use pavlov::envs::{EnvCreator, IntoEnvCreator, Space};
use pavlov::prelude::*;
use pavlov::trainer::policy::Spaces;
use pavlov::trainer::{resolve, to_config};
use serde_json::{Value, json};

use crate::support::{at, discrete_spaces, number, quiet, refused, tiny_ppo};

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

fn object(value: Value) -> Config {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn cartpole() -> EnvCreator {
    "CartPole-v1".into_env_creator()
}

/// What a sweep, a file or `--set` goes through: overlay, decode, the common rules, the algorithm's rules.
fn configure<T: Trainer>(config: Value, spaces: &Spaces) -> Result<T> {
    let (mut settings, _) = resolve(&T::get_default_config(), &object(config), &cartpole())?;
    settings.common().validate()?;
    settings.validate_config(spaces)?;
    Ok(settings)
}

fn ppo(config: Value) -> Result<Ppo> {
    configure(config, &discrete_spaces(4, 2))
}

fn dqn(config: Value) -> Result<Dqn> {
    configure(config, &discrete_spaces(4, 2))
}

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
            "evaluation_parallel_to_training": false, "always_attach_evaluation_results": false,
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
fn every_common_key_of_rays_is_a_setting_or_refused_with_a_reason() {
    let common = to_config(&Ppo::get_default_config()).expect("an object");
    for key in RAYS_KEYS.split_whitespace() {
        let value = common.get(key).cloned().unwrap_or(json!(1));
        let value = if key == "env" { json!("CartPole-v1") } else { value };
        match resolve(&Ppo::get_default_config(), &object(json!({ key: value })), &cartpole()) {
            Ok(_) => assert!(common.contains_key(key) || key == "env", "{key} is swallowed"),
            Err(error) => {
                let text = error.to_string();
                let start = format!("`{key}` is 1, but this setting of Ray's has no meaning here: ");
                assert!(text.starts_with(&start) && text.len() > start.len() + 10, "{key}: {text}");
            }
        }
    }
}

#[test]
fn every_model_key_of_rays_is_a_setting_or_refused_with_a_reason() {
    let model = to_config(&Ppo::get_default_config()).expect("an object")["model"].clone();
    for key in RAYS_MODEL_KEYS.split_whitespace() {
        let config = json!({"model": {key: model.get(key).cloned().unwrap_or(json!(1))}});
        match resolve(&Ppo::get_default_config(), &object(config), &cartpole()) {
            Ok(_) => assert!(model.get(key).is_some(), "{key} is swallowed"),
            Err(error) => {
                let start = format!("`model.{key}` is 1, but this setting of Ray's has no meaning here: ");
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
fn a_value_of_the_wrong_kind_names_field_value_and_rule() {
    for (config, text) in [
        (json!({"gamma": "high"}), "`gamma` is \"high\", but it must be a number"),
        (json!({"num_workers": -1}), "`num_workers` is -1, but it must be a whole number, 0 or more"),
        (json!({"num_workers": 1.5}), "`num_workers` is 1.5, but it must be a whole number, 0 or more"),
        (json!({"use_gae": 1}), "`use_gae` is 1, but it must be true or false"),
        (json!({"batch_mode": "whole"}), "`batch_mode` is \"whole\", but it must be "),
        (
            json!({"model": {"fcnet_activation": "cube"}}),
            "`model.fcnet_activation` is \"cube\", but it must be ",
        ),
        (json!({"env": 3}), "`env` is 3, but it must be the id of an environment"),
    ] {
        refused(ppo(config), &[text]);
    }
}

/// Every rule of the common settings and of PPO, word for word.
#[test]
fn ppo_rules_name_field_value_and_rule() {
    for (config, text) in [
        (json!({"num_envs_per_worker": 0}), "`num_envs_per_worker` is 0, but it must be at least 1"),
        (json!({"rollout_fragment_length": 0}), "`rollout_fragment_length` is 0, but it must be at least 1"),
        (json!({"train_batch_size": 0}), "`train_batch_size` is 0, but it must be at least 1"),
        (
            json!({"metrics_num_episodes_for_smoothing": 0}),
            "`metrics_num_episodes_for_smoothing` is 0, but it must be at least 1",
        ),
        (json!({"gamma": 1.5}), "`gamma` is 1.5, but it must be in 0..=1"),
        (
            json!({"evaluation_interval": 0}),
            "`evaluation_interval` is 0, but it must be at least 1; null evaluates never",
        ),
        (json!({"evaluation_duration": 0}), "`evaluation_duration` is 0, but it must be at least 1"),
        (
            json!({"evaluation_parallel_to_training": true}),
            "`evaluation_parallel_to_training` is true, but it needs workers of its own: set `evaluation_num_workers` to at least 1",
        ),
        (json!({"num_gpus": 2}), "`num_gpus` is 2, but learning on more than one GPU is not there yet"),
        (
            json!({"min_time_s_per_reporting": 0}),
            "`min_time_s_per_reporting` is 0, but it must be a number of seconds above 0, or null",
        ),
        (
            json!({"worker_timeout_s": -1}),
            "`worker_timeout_s` is -1, but it must be a number of seconds above 0, or null",
        ),
        (
            json!({"clip_rewards": -2.0}),
            "`clip_rewards` is -2.0, but it must be true, false, null or a number above 0",
        ),
        (
            json!({"model": {"fcnet_hiddens": [64, 0]}}),
            "`model.fcnet_hiddens` is [64, 0], but every layer needs at least one unit",
        ),
        (
            json!({"model": {"fcnet_hiddens": [], "no_final_linear": true}}),
            "`model.no_final_linear` is true, but without a final linear layer there must be a hidden one; add to `model.fcnet_hiddens`",
        ),
        (
            json!({"sgd_minibatch_size": 5000}),
            "`sgd_minibatch_size` is 5000, but it must be in 1..=4000 (`train_batch_size`)",
        ),
        (
            json!({"sgd_minibatch_size": 0}),
            "`sgd_minibatch_size` is 0, but it must be in 1..=4000 (`train_batch_size`)",
        ),
        (json!({"num_sgd_iter": 0}), "`num_sgd_iter` is 0, but it must be at least 1"),
        (json!({"lr": 0}), "`lr` is 0, but it must be above 0"),
        (json!({"clip_param": -0.1}), "`clip_param` is -0.1, but it must be above 0"),
        (json!({"vf_clip_param": 0}), "`vf_clip_param` is 0, but it must be above 0"),
        (json!({"entropy_coeff": -0.1}), "`entropy_coeff` is -0.1, but it must not be negative"),
        (json!({"vf_loss_coeff": -1}), "`vf_loss_coeff` is -1, but it must not be negative"),
        (json!({"kl_coeff": -1}), "`kl_coeff` is -1, but it must not be negative"),
        (json!({"kl_target": -1}), "`kl_target` is -1, but it must not be negative"),
        (json!({"grad_clip": 0}), "`grad_clip` is 0, but it must be above 0, or null"),
        (json!({"target_kl": 0}), "`target_kl` is 0, but it must be above 0, or null"),
        (json!({"lambda": 1.1}), "`lambda` is 1.1, but it must be in 0..=1"),
        (
            json!({"use_critic": false}),
            "`use_critic` is false, but `use_gae` needs a critic; set both or neither",
        ),
        (
            json!({"use_gae": false}),
            "`use_gae` is false, but fragments of episodes need it to bootstrap; set it, or `batch_mode` to \"complete_episodes\"",
        ),
        (
            json!({"lr_schedule": [[10, 0.1], [5, 0.2]]}),
            "`lr_schedule` is [[10,0.1],[5,0.2]], but it must be a list of at least one [step, value], steps growing, values finite",
        ),
        (
            json!({"entropy_coeff_schedule": []}),
            "`entropy_coeff_schedule` is [], but it must be a list of at least one [step, value], steps growing, values finite",
        ),
        (
            json!({"exploration_config": {"type": "Random"}}),
            "`exploration_config` is {\"type\":\"Random\"}, but PPO learns from its own samples: only {\"type\": \"StochasticSampling\"} keeps them so",
        ),
    ] {
        assert_eq!(refused(ppo(config), &[]), text);
    }
}

#[test]
fn dqn_rules_name_field_value_and_rule() {
    for (config, text) in [
        (
            json!({"replay_buffer_config": {"capacity": 0}}),
            "`replay_buffer_config.capacity` is 0, but it must be at least 1",
        ),
        (
            json!({"replay_buffer_config": {"capacity": 500}}),
            "`replay_buffer_config.learning_starts` is 1000, but it must be at most 500 (`replay_buffer_config.capacity`), or learning never starts",
        ),
        (
            json!({"replay_buffer_config": {"capacity": 16, "learning_starts": 0}}),
            "`replay_buffer_config.capacity` is 16, but it must be at least 32 (`train_batch_size`)",
        ),
        (
            json!({"replay_buffer_config": {"prioritized_replay_alpha": 1.5}}),
            "`replay_buffer_config.prioritized_replay_alpha` is 1.5, but it must be in 0..=1",
        ),
        (
            json!({"replay_buffer_config": {"prioritized_replay_beta": -1}}),
            "`replay_buffer_config.prioritized_replay_beta` is -1, but it must be in 0..=1",
        ),
        (
            json!({"replay_buffer_config": {"prioritized_replay_eps": 0}}),
            "`replay_buffer_config.prioritized_replay_eps` is 0, but it must be above 0",
        ),
        (json!({"n_step": 0}), "`n_step` is 0, but it must be at least 1"),
        (json!({"num_atoms": 0}), "`num_atoms` is 0, but it must be at least 1"),
        (json!({"hiddens": [0]}), "`hiddens` is [0], but every layer needs at least one unit"),
        (json!({"lr": -1}), "`lr` is -1, but it must be above 0"),
        (json!({"sigma0": 0}), "`sigma0` is 0, but it must be above 0"),
        (json!({"grad_clip": 0}), "`grad_clip` is 0, but it must be above 0, or null"),
        (json!({"training_intensity": 0}), "`training_intensity` is 0, but it must be above 0, or null"),
        (
            json!({"num_atoms": 51, "v_min": 10, "v_max": 5}),
            "`v_min` is 10, but it must be below 5 (`v_max`)",
        ),
        (
            json!({"worker_side_prioritization": true, "replay_buffer_config": {"type": "ReplayBuffer"}}),
            "`worker_side_prioritization` is true, but it needs `replay_buffer_config.type` to be \"PrioritizedReplayBuffer\"",
        ),
        (
            json!({"exploration_config": {"type": "StochasticSampling"}}),
            "`exploration_config.type` is \"StochasticSampling\", but values have no distribution to sample; use EpsilonGreedy, PerWorkerEpsilonGreedy, SoftQ or Random",
        ),
        (
            json!({"exploration_config": {"initial_epsilon": 1.5}}),
            "`exploration_config.initial_epsilon` is 1.5, but it must be in 0..=1",
        ),
        (
            json!({"exploration_config": {"type": "SoftQ", "temperature": 0}}),
            "`exploration_config.temperature` is 0, but it must be above 0",
        ),
    ] {
        assert_eq!(refused(dqn(config), &[]), text);
    }
}

#[test]
fn spaces_that_an_algorithm_cannot_serve_are_refused() {
    let spaces = |action_space| Spaces { observation_space: Space::real(&[1]), action_space };
    let real = configure::<Dqn>(json!({}), &spaces(Space::boxed(-1.0, 1.0, &[1])));
    refused(real, &["DQN needs a Discrete action space, but the environment's is Box"]);
    let nested = configure::<Ppo>(json!({}), &spaces(Space::Tuple(vec![Space::discrete(2)])));
    refused(nested, &["needs a Discrete, MultiDiscrete, MultiBinary or one-dimensional Box action space"]);
}

#[test]
fn rays_names_of_algorithm_keys_say_where_they_went() {
    refused(
        ppo(json!({"shuffle_sequences": true})),
        &["`shuffle_sequences` is true", "rows are always shuffled"],
    );
    for key in [
        "before_learn_on_batch",
        "prioritized_replay",
        "prioritized_replay_alpha",
        "prioritized_replay_beta",
        "prioritized_replay_eps",
        "final_prioritized_replay_beta",
        "prioritized_replay_beta_annealing_timesteps",
        "buffer_size",
        "learning_starts",
        "replay_sequence_length",
    ] {
        refused(
            dqn(json!({key: 1})),
            &[&format!("`{key}` is 1, but this setting of Ray's has no meaning here: ")],
        );
    }
    let taken = dqn(json!({"replay_buffer_config": {"type": "MultiAgentReplayBuffer"}})).expect("Ray's name");
    let config = to_config(&taken).expect("an object");
    assert_eq!(config["replay_buffer_config"]["type"], "ReplayBuffer");
}

fn batch(train_batch: usize, workers: usize, envs: usize, fragment: usize) -> Result<Common> {
    let mut common = Common {
        train_batch_size: train_batch,
        num_workers: workers,
        num_envs_per_worker: envs,
        rollout_fragment_length: fragment,
        ..Common::default()
    };
    common.fit_fragments()?;
    Ok(common)
}

#[test]
fn batches_that_divide_exactly_have_rays_fragments() {
    // train batch, workers, envs, fragment given: fragment used, steps per round.
    for ((train_batch, workers, envs, given), (used, round)) in [
        ((4000, 2, 1, 200), (200, 400)),
        ((4000, 1, 1, 200), (200, 200)),
        ((5000, 10, 5, 100), (100, 5000)),
        ((65_536, 16, 16, 200), (256, 65_536)),
    ] {
        let common = batch(train_batch, workers, envs, given).expect("an exact batch");
        assert_eq!((common.rollout_fragment_length, common.steps_per_round()), (used, round));
        assert_eq!(train_batch % round, 0);
    }
}

#[test]
fn batches_that_ray_would_overshoot_are_refused_with_the_nearest() {
    for (train_batch, workers, envs, text) in [
        (
            4000,
            3,
            1,
            "`train_batch_size` is 4000, but it must be a multiple of the 3 environment copies (`num_workers` 3 x `num_envs_per_worker` 1); nearest: 3999 or 4002",
        ),
        (
            4000,
            7,
            1,
            "`train_batch_size` is 4000, but it must be a multiple of the 7 environment copies (`num_workers` 7 x `num_envs_per_worker` 1); nearest: 3997 or 4004",
        ),
        (
            512,
            0,
            20,
            "`train_batch_size` is 512, but it must be a multiple of the 20 environment copies (`num_workers` 1 x `num_envs_per_worker` 20); nearest: 500 or 520",
        ),
        (
            3,
            2,
            2,
            "`train_batch_size` is 3, but it must be a multiple of the 4 environment copies (`num_workers` 2 x `num_envs_per_worker` 2); nearest: 4",
        ),
    ] {
        assert_eq!(refused(batch(train_batch, workers, envs, 200), &[]), text);
    }
}

#[test]
fn the_batch_is_told_in_words() {
    let common = batch(4000, 2, 1, 200).expect("an exact batch");
    assert_eq!(
        common.batch_arithmetic(),
        "2 worker(s) x 1 env(s) x 200 steps = 400 steps per round; 10 round(s) = a batch of 4000"
    );
}

#[test]
fn dqn_fragments_are_at_least_n_step_long() {
    assert_eq!(dqn(json!({"n_step": 7})).expect("settings").common.rollout_fragment_length, 7);
    assert_eq!(dqn(json!({"n_step": 3})).expect("settings").common.rollout_fragment_length, 4);
}

/// Returns, lengths and losses of two iterations: everything but the clock.
fn two_iterations(seed: Option<u64>) -> (Value, u64) {
    let mut ppo = tiny_ppo();
    ppo.common.seed = seed;
    let mut trainer = quiet(ppo, "CartPole-v1").expect("a trainer");
    trainer.train().expect("a result");
    let result = trainer.train().expect("a result");
    let told = json!([at(&result, "hist_stats"), at(&result, "info.learner")]);
    (told, trainer.get_config()["seed"].as_u64().expect("a seed"))
}

#[test]
fn seed_zero_is_a_seed() {
    let (zero, recorded) = two_iterations(Some(0));
    assert_eq!(recorded, 0);
    assert_eq!(two_iterations(Some(0)).0, zero);
    assert_ne!(two_iterations(Some(1)).0, zero);
}

#[test]
fn an_absent_seed_is_drawn_and_recorded_so_that_the_run_can_be_repeated() {
    let (told, seed) = two_iterations(None);
    assert_ne!(seed, two_iterations(None).1);
    assert_eq!(two_iterations(Some(seed)), (told, seed));
}

#[test]
fn the_resolved_config_is_in_every_result() {
    let mut trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    let result = trainer.train().expect("a result");
    assert_eq!(at(&result, "config.env"), "CartPole-v1");
    assert_eq!(number(&result, "config.train_batch_size"), 32.0);
    assert_eq!(number(&result, "config.lambda"), 1.0);
}
