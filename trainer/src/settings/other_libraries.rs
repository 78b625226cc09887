//! Names of settings in other libraries, and errors that name the setting to use here.

use crate::base::{Error, Result, rules};
use pavlov_tune::Config;
use serde_json::Value;

/// Names of a setting in other libraries, and names of the same setting here, of which the first that the algorithm has
/// is used.
///
/// The libraries are Stable-Baselines3 and RL Baselines3 Zoo, CleanRL, and Ray 2.x.
const SYNONYMS: &[(&[&str], &[&str])] = &[
    (&["minibatch_size", "mini_batch_size", "batch_size"], &["sgd_minibatch_size", "train_batch_size"]),
    (&["train_batch_size_per_learner", "total_batch_size"], &["train_batch_size"]),
    (&["n_steps", "num_steps"], &["rollout_fragment_length"]),
    (&["n_envs", "num_envs", "num_envs_per_env_runner"], &["num_envs_per_worker"]),
    (&["num_env_runners", "num_rollout_workers"], &["num_workers"]),
    (&["num_cpus_per_env_runner"], &["num_cpus_per_worker"]),
    (&["num_gpus_per_env_runner"], &["num_gpus_per_worker"]),
    (&["custom_resources_per_env_runner"], &["custom_resources_per_worker"]),
    (&["num_cpus_for_main_process", "num_cpus_for_local_worker"], &["num_cpus_for_driver"]),
    (&["n_epochs", "num_epochs", "update_epochs"], &["num_sgd_iter"]),
    (&["learning_rate"], &["lr", "optimization.actor_learning_rate"]),
    (&["policy_lr", "actor_lr"], &["optimization.actor_learning_rate", "lr"]),
    (&["q_lr", "critic_lr"], &["optimization.critic_learning_rate", "lr"]),
    (&["alpha_lr"], &["optimization.entropy_learning_rate"]),
    (&["lambda_", "gae_lambda"], &["lambda"]),
    (&["clip_range", "clip_coef"], &["clip_param"]),
    (&["clip_range_vf"], &["vf_clip_param"]),
    (&["ent_coef", "ent_coeff", "entropy_coef"], &["entropy_coeff", "initial_alpha"]),
    (&["vf_coef", "value_coef", "vf_loss_coef"], &["vf_loss_coeff"]),
    (&["max_grad_norm", "grad_norm_clipping"], &["grad_clip"]),
    (&["discount", "discount_factor"], &["gamma"]),
    (&["norm_adv", "normalize_advantage"], &["normalize_advantages"]),
    (&["buffer_size", "replay_buffer_size"], &["replay_buffer_config.capacity"]),
    (
        &["learning_starts", "num_steps_sampled_before_learning_starts"],
        &["replay_buffer_config.learning_starts"],
    ),
    (&["target_update_interval", "target_network_frequency"], &["target_network_update_freq"]),
    (&["exploration_initial_eps", "start_e"], &["exploration_config.initial_epsilon"]),
    (&["exploration_final_eps", "end_e"], &["exploration_config.final_epsilon"]),
    (&["epsilon"], &["exploration_config.epsilon_schedule"]),
    (&["net_arch", "hidden_sizes"], &["model.fcnet_hiddens"]),
    (&["activation_fn"], &["model.fcnet_activation"]),
    (&["ortho_init"], &["model.fcnet_initializer"]),
    (&["model_config"], &["model"]),
    (&["normalize", "norm_obs"], &["observation_filter"]),
    (&["total_timesteps", "n_timesteps"], &["the stop criterion timesteps_total"]),
];

/// Settings of other libraries that do not exist here, and what to do instead.
const NO_COUNTERPART: &[(&str, &str)] = &[
    ("use_sde", "noise that depends on the state (gSDE) is not there; leave it out"),
    ("sde_sample_freq", "noise that depends on the state (gSDE) is not there; leave it out"),
    ("anneal_lr", "give `lr_schedule` = [[0, FIRST], [LAST_STEP, 0.0]] instead"),
    ("num_minibatches", "give `sgd_minibatch_size` instead, the batch over this number"),
    (
        "gradient_steps",
        "off-policy algorithms have `training_intensity`: steps learnt from for each step sampled",
    ),
    ("train_freq", "off-policy algorithms learn after every `rollout_fragment_length` steps"),
    ("policy_kwargs", "give `model.fcnet_hiddens` and `model.fcnet_activation` instead"),
    ("tensorboard_log", "every run writes for TensorBoard, into its own directory; leave it out"),
    ("verbose", "`--quiet` shows no progress; leave it out"),
    ("device", "give `num_gpus` instead: 0 is the CPU"),
    ("cuda", "give `num_gpus` instead: 0 is the CPU"),
    ("torch_deterministic", "every run is deterministic; leave it out"),
    ("capture_video", "give `render_env` = true and an `evaluation_interval` instead"),
];

/// Returns the name here of the setting that other libraries call `key`; `None` if no known library has such a setting.
pub fn synonym(key: &str, defaults: &Config) -> Option<&'static str> {
    let (_, names) = SYNONYMS.iter().find(|(others, _)| others.contains(&key))?;
    names.iter().find(|name| name.contains(' ') || is_known(name, defaults)).copied()
}

/// Whether the settings `defaults` have a setting at the dotted `path`.
fn is_known(path: &str, defaults: &Config) -> bool {
    let mut parts = path.split('.');
    let top = parts.next().and_then(|top| defaults.get(top));
    parts.try_fold(top, |level, part| Some(level?.get(part))).flatten().is_some()
}

/// Prepares settings for [`overlay`](pavlov_tune::config::overlay): removes Ray's keys that would change nothing, and
/// returns an error for keys that have no meaning here and for names of other libraries.
///
/// Fails as [`rules::all`] does, with [`Error::Config`] for each of Ray's keys that has no meaning here and for each
/// setting under another library's name.
pub fn translate(values: &mut Config, defaults: &Config, refused: &[&[(&str, &str)]]) -> Result<()> {
    let mut checks: Vec<_> = refused.iter().map(|refused| refuse_keys(values, refused)).collect();
    let mut beside_model = Config::new();
    values.retain(|key, value| {
        if defaults.contains_key(key) {
            return true;
        }
        let of_the_model = defaults.get("model").is_some_and(|model| model.get(key).is_some());
        if of_the_model && asks_for_nothing(value) {
            beside_model.insert(key.clone(), value.clone());
            return false;
        }
        let rule = match (synonym(key, defaults), NO_COUNTERPART.iter().find(|(other, _)| other == key)) {
            (Some(name), _) => format!("its name here is `{name}`"),
            (None, Some(_)) if asks_for_nothing(value) => return false,
            (None, Some((_, instead))) => format!("it has no counterpart here: {instead}"),
            (None, None) => return true,
        };
        checks.push(Err(Error::config(key, &*value, rule)));
        false
    });
    if !beside_model.is_empty()
        && let Value::Object(model) = values.entry("model").or_insert_with(|| Config::new().into())
    {
        // Keys within `model` itself take precedence.
        beside_model.extend(std::mem::take(model));
        *model = beside_model;
    }
    rules::all(checks)
}

/// Removes Ray's keys that have no meaning here. Their value must change nothing (`"framework": "torch"`,
/// `"horizon": null`); otherwise an error gives the reason.
///
/// # Errors
/// Fails as [`rules::all`] does, with [`Error::Config`] and the reason for each key whose value would change something.
fn refuse_keys(values: &mut Config, refused: &[(&str, &str)]) -> Result<()> {
    let mut checks = Vec::new();
    for (key, why) in refused {
        let (level, name) = match key.split_once('.') {
            None => (Some(&mut *values), *key),
            Some((outer, inner)) => (values.get_mut(outer).and_then(Value::as_object_mut), inner),
        };
        let Some(value) = level.and_then(|level| level.shift_remove(name)) else { continue };
        let rule = format!("this setting of Ray's has no meaning here: {why}");
        checks.push(rules::refuse_if(!is_harmless(key, &value), key, value, rule));
    }
    rules::all(checks)
}

/// Whether this value of a key without a meaning here would change nothing.
fn is_harmless(key: &str, value: &Value) -> bool {
    match (key, value) {
        ("framework", Value::String(_)) => true,
        ("input", Value::String(input)) => input == "sampler",
        ("log_level", Value::String(level)) => level == "WARN",
        // Ray writes its own default as a class.
        ("callbacks", Value::String(class)) => class.contains("DefaultCallbacks"),
        ("sample_collector", Value::String(class)) => class.contains("SimpleListCollector"),
        ("metrics_episode_collection_timeout_s", value) => *value == 180,
        // These values are always in force here.
        ("vtrace" | "shuffle_sequences", value) => *value == true,
        ("num_multi_gpu_tower_stacks", value) => *value == 1,
        // Ray's default is not the default here: only null changes nothing.
        ("prioritized_replay", value) => value.is_null(),
        // These are Ray's defaults, without effect unless another key turns them on.
        ("tf_session_args" | "local_tf_session_args", Value::Object(_)) => true,
        ("input_evaluation" | "output_compress_columns", Value::Array(_)) => true,
        ("eager_max_retraces", value) => *value == 20,
        ("output_max_file_size", value) => *value == 64 << 20,
        ("model.attention_num_transformer_units" | "model.attention_num_heads", value) => *value == 1,
        ("model.attention_dim", value) => *value == 64,
        ("model.attention_head_dim" | "model.attention_position_wise_mlp_dim", value) => *value == 32,
        ("model.attention_memory_inference" | "model.attention_memory_training", value) => *value == 50,
        ("model.attention_init_gru_gate_bias", value) => value.as_f64() == Some(2.0),
        ("multiagent", Value::Object(inner)) => {
            ["policies", "policy_mapping_fn"].iter().all(|key| inner.get(*key).is_none_or(asks_for_nothing))
        }
        (
            "num_aggregation_workers"
            | "remote_env_batch_wait_ms"
            | "shuffle_buffer_size"
            | "timesteps_per_iteration"
            | "min_iter_time_s"
            | "model.attention_use_n_prev_actions"
            | "model.attention_use_n_prev_rewards",
            Value::Number(number),
        ) if number.as_f64() == Some(0.0) => true,
        // Ray marks keys that were replaced by another with -1.
        (_, Value::Number(number)) => number.as_f64() == Some(-1.0),
        (_, value) => asks_for_nothing(value),
    }
}

/// Whether a value is null, false or empty, so that its setting asks for nothing.
fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(inner) => inner.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::common::Common;
    use crate::settings::refused_keys::REFUSED_KEYS;
    use crate::settings::replay::OffPolicy;
    use serde_json::json;

    fn object(value: Value) -> Config {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_name_of_another_library_is_answered_with_the_name_here_that_the_algorithm_has() {
        let common = object(serde_json::to_value(Common::default()).unwrap());
        let mut ppo = common.clone();
        ppo.extend(object(json!({"sgd_minibatch_size": 128, "lambda": 1.0})));
        let mut dqn = common;
        dqn.extend(object(serde_json::to_value(OffPolicy::default()).unwrap()));
        assert_eq!(synonym("batch_size", &ppo), Some("sgd_minibatch_size"));
        assert_eq!(synonym("batch_size", &dqn), Some("train_batch_size"));
        assert_eq!(synonym("lambda_", &ppo), Some("lambda"));
        assert_eq!(synonym("lambda_", &dqn), None);
        assert_eq!(synonym("buffer_size", &dqn), Some("replay_buffer_config.capacity"));
        let message =
            translate(&mut object(json!({"num_env_runners": 4})), &ppo, &[]).unwrap_err().to_string();
        assert!(message.contains("num_env_runners") && message.contains("`num_workers`"), "{message}");
    }

    #[test]
    fn a_name_of_another_library_without_a_counterpart_is_answered_with_what_to_do_instead() {
        let defaults = object(serde_json::to_value(Common::default()).unwrap());
        for (key, _) in NO_COUNTERPART {
            assert!(!is_known(key, &defaults) && synonym(key, &defaults).is_none(), "{key}");
        }
        let refusal = |values| translate(&mut object(values), &defaults, &[]).unwrap_err().to_string();
        let message = refusal(json!({"use_sde": true}));
        assert_eq!(
            message,
            "`use_sde` is true, but it has no counterpart here: noise that depends on the state (gSDE) is not there; \
             leave it out"
        );
        let mut values = object(json!({"use_sde": false, "capture_video": false, "gamma": 0.9}));
        translate(&mut values, &defaults, &[]).unwrap();
        assert_eq!(Value::from(values), json!({"gamma": 0.9}));
    }

    #[test]
    fn a_setting_of_the_network_beside_model_counts_where_it_asks_for_nothing() {
        let defaults = object(serde_json::to_value(Common::default()).unwrap());
        let mut values = object(json!({"use_lstm": false, "use_gru": false, "model": {"use_gru": true}}));
        translate(&mut values, &defaults, &[]).unwrap();
        assert_eq!(Value::from(values), json!({"model": {"use_gru": true, "use_lstm": false}}));
        let mut values = object(json!({"use_lstm": true}));
        translate(&mut values, &defaults, &[]).unwrap();
        assert_eq!(Value::from(values), json!({"use_lstm": true}), "left for `overlay` to refuse");
    }

    #[test]
    fn the_defaults_of_rays_keys_without_a_meaning_are_accepted() {
        // Ray 1.13's COMMON_CONFIG, but for what Ray does to Atari environments unasked.
        let mut values = object(json!({
            "framework": "tf", "eager_tracing": false, "eager_max_retraces": 20, "tf_session_args": {"gpu_options": {}},
            "simple_optimizer": -1, "monitor": -1, "horizon": null, "soft_horizon": false, "no_done_at_end": false,
            "remote_worker_envs": false, "remote_env_batch_wait_ms": 0, "render_env": false, "record_env": false,
            "log_level": "WARN", "callbacks": "<class 'ray.rllib.agents.callbacks.DefaultCallbacks'>",
            "sample_collector": "<class 'ray.rllib.evaluation.collectors.simple_list_collector.SimpleListCollector'>",
            "metrics_episode_collection_timeout_s": 180, "min_iter_time_s": 0, "timesteps_per_iteration": 0,
            "placement_strategy": "PACK", "input": "sampler", "input_config": {}, "input_evaluation": ["is", "wis"],
            "shuffle_buffer_size": 0, "output": null, "output_compress_columns": ["obs", "new_obs"],
            "output_max_file_size": 67108864, "multiagent": {"policies": {}, "policy_mapping_fn": null, "count_steps_by": "env_steps"},
            "model": {"use_attention": false, "attention_dim": 64, "attention_num_heads": 1},
        }));
        translate(&mut values, &Config::new(), &[REFUSED_KEYS]).unwrap();
        let known = json!({
            "render_env": false, "model": {}, "placement_strategy": "PACK",
            "multiagent": {"policies": {}, "policy_mapping_fn": null, "count_steps_by": "env_steps"},
        });
        assert_eq!(Value::from(values), known);
        for asks in [json!({"log_level": "DEBUG"}), json!({"model": {"use_attention": true}})] {
            assert!(translate(&mut object(asks), &Config::new(), &[REFUSED_KEYS]).is_err());
        }
    }

    #[test]
    fn values_that_ask_for_nothing_are_dropped_and_others_refused() {
        let refused: &[(&str, &str)] = &[
            ("framework", "leave it out"),
            ("horizon", "wrap it"),
            ("vtrace", "it is always so"),
            ("model.use_attention", "not there"),
        ];
        let mut values = object(json!({
            "framework": "torch", "horizon": null, "vtrace": true, "model": {"use_attention": false}, "gamma": 0.9,
        }));
        translate(&mut values, &Config::new(), &[refused]).unwrap();
        assert_eq!(Value::from(values), json!({"model": {}, "gamma": 0.9}));
        for asks in
            [json!({"horizon": 200}), json!({"vtrace": false}), json!({"model": {"use_attention": true}})]
        {
            assert!(translate(&mut object(asks), &Config::new(), &[refused]).is_err());
        }
    }
}
