//! Names of settings in other libraries, and errors that name the setting to use here.

use pavlov_learn::base::{Error, Result, rules};
use pavlov_tune::Config;
use pavlov_tune::config::near;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What pavlov knows of the settings of Stable-Baselines3, RL Baselines3 Zoo, CleanRL and Ray, read from
/// `other_libraries.json`.
static OTHERS: LazyLock<OtherLibraries> = LazyLock::new(|| {
    serde_json::from_str(include_str!("other_libraries.json"))
        .expect("a file of this crate, which a test reads")
});

/// The content of `other_libraries.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherLibraries {
    synonyms: Vec<Synonym>,
    /// Settings of other libraries that pavlov does not have, each with the advice what to do instead.
    no_counterpart: BTreeMap<String, String>,
    /// Settings of Ray that pavlov refuses, grouped by the reason.
    refused: Vec<Refused>,
    /// By refused setting: the values that ask for nothing, such as Ray's default, besides null, false and empty ones. Null
    /// in place of the list allows every text, list and object.
    without_effect: BTreeMap<String, Option<Vec<Value>>>,
    /// Refused settings for which false asks for a change, because what they turn on is on in pavlov or in Ray by default.
    on_unless_null: Vec<String>,
}

/// The names of one setting in other libraries, and its names in pavlov's algorithms.
#[derive(Debug, Deserialize)]
struct Synonym {
    names_there: Vec<String>,
    /// The first of these names that the algorithm has is the one to use.
    names_here: Vec<String>,
}

/// Settings of Ray that pavlov refuses for one reason.
#[derive(Debug, Deserialize)]
struct Refused {
    keys: Vec<String>,
    /// The reason, or what to do instead; error messages end with it.
    why: String,
}

/// Returns the name here of the setting that other libraries call `key`; `None` if no known library has such a setting.
pub fn synonym(key: &str, defaults: &Config) -> Option<&'static str> {
    let synonym =
        OTHERS.synonyms.iter().find(|synonym| synonym.names_there.iter().any(|name| name == key))?;
    let mut names = synonym.names_here.iter().map(String::as_str);
    names.find(|name| name.contains(' ') || is_known(name, defaults))
}

/// The names that a setting has in other libraries: Ray's later versions, Stable-Baselines3, RL Baselines3 Zoo and CleanRL.
pub fn names_elsewhere(key: &str) -> Vec<&'static str> {
    let of = OTHERS.synonyms.iter().filter(|synonym| synonym.names_here.iter().any(|name| name == key));
    of.flat_map(|synonym| synonym.names_there.iter().map(String::as_str)).collect()
}

/// The name in another library that `key` is a misspelling of, and the name here; `None` if a setting of `defaults` is as
/// near.
fn misspelt(key: &str, defaults: &Config) -> Option<(&'static str, &'static str)> {
    if !near(key, defaults.keys().map(String::as_str)).is_empty() {
        return None;
    }
    let there = OTHERS.synonyms.iter().flat_map(|synonym| synonym.names_there.iter().map(String::as_str));
    let there = there.filter(|name| synonym(name, defaults).is_some());
    let there = *near(key, there).first()?;
    Some((there, synonym(there, defaults)?))
}

/// Whether the settings `defaults` have a setting at the dotted `path`.
fn is_known(path: &str, defaults: &Config) -> bool {
    let mut parts = path.split('.');
    let top = parts.next().and_then(|top| defaults.get(top));
    parts.try_fold(top, |level, part| Some(level?.get(part))).flatten().is_some()
}

/// Prepares settings for [`overlay`](pavlov_tune::config::overlay): removes Ray's keys that would change nothing, and
/// returns an error for keys that have no meaning here and for names of other libraries. `refused` lists
/// the settings of Ray's algorithm of this name that pavlov refuses as well, each with the reason.
///
/// Fails as [`rules::all`] does, with [`Error::Config`] for each of Ray's keys that has no meaning here and for each
/// setting under another library's name.
pub fn translate(values: &mut Config, defaults: &Config, refused: &[(&str, &str)]) -> Result<()> {
    let of_all =
        OTHERS.refused.iter().flat_map(|same| same.keys.iter().map(|key| (key.as_str(), same.why.as_str())));
    let refused = of_all.chain(refused.iter().copied());
    let mut checks: Vec<_> = refused.map(|(key, why)| refuse_key(values, key, why)).collect();
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
        let rule = match (synonym(key, defaults), OTHERS.no_counterpart.get(key)) {
            (Some(name), _) => format!("its name here is `{name}`"),
            (None, Some(_)) if asks_for_nothing(value) => return false,
            (None, Some(instead)) => format!("it has no counterpart here: {instead}"),
            (None, None) => match misspelt(key, defaults) {
                Some((there, name)) => format!("`{there}` may be meant, and its name here is `{name}`"),
                None => return true,
            },
        };
        checks.push(Err(Error::config(key, &*value, rule)));
        false
    });
    if !beside_model.is_empty()
        && let Value::Object(model) = values.entry("model").or_insert_with(|| Config::new().into())
    {
        // Keys within `model` itself take precedence.
        beside_model.extend(std::mem::take(model));
        *model = beside_model.into();
    }
    rules::all(checks)
}

/// Removes the refused setting `key` of Ray's from `values`, if it is there and asks for nothing, as `"framework": "torch"`
/// and `"horizon": null` do.
///
/// # Errors
/// Returns [`Error::Config`] with the reason `why` if the setting asks for something.
fn refuse_key(values: &mut Config, key: &str, why: &str) -> Result<()> {
    let (level, name) = match key.split_once('.') {
        None => (Some(&mut **values), key),
        Some((outer, inner)) => (values.get_mut(outer).and_then(Value::as_object_mut), inner),
    };
    let Some(value) = level.and_then(|level| level.shift_remove(name)) else { return Ok(()) };
    let rule = format!("this setting of Ray's has no meaning here: {why}");
    rules::refuse_if(!is_harmless(key, &value), key, value, rule)
}

/// Whether a value of the refused setting `key` asks for nothing, so that it can be dropped without an error.
fn is_harmless(key: &str, value: &Value) -> bool {
    // Ray marks keys that were replaced by another with -1.
    if value.is_null() || value.as_f64() == Some(-1.0) {
        return true;
    }
    let is_listed = match OTHERS.without_effect.get(key) {
        Some(Some(values)) => values.iter().any(|known| is_same(known, value)),
        Some(None) => value.is_string() || value.is_array() || value.is_object(),
        None => false,
    };
    let is_empty_mapping = || {
        let keys = ["policies", "policy_mapping_fn"];
        key == "multiagent"
            && keys.iter().all(|key| value.get(key).is_none_or(asks_for_nothing))
            && value.is_object()
    };
    let can_be_off = OTHERS.on_unless_null.iter().all(|on| on != key);
    is_listed || is_empty_mapping() || can_be_off && asks_for_nothing(value)
}

/// Whether a setting's value is the `known` one. Numbers are compared by their size, whatever their type. A class that Ray
/// writes as text, such as `<class 'ray.rllib.agents.callbacks.DefaultCallbacks'>`, equals its last name.
fn is_same(known: &Value, value: &Value) -> bool {
    match (known, value) {
        (Value::Number(known), Value::Number(value)) => known.as_f64() == value.as_f64(),
        (Value::String(known), Value::String(value)) => {
            let class = value.trim_end_matches("'>");
            value == known || class.rsplit_once('.').is_some_and(|(_, name)| name == known)
        }
        _ => known == value,
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
    use crate::settings::replay::OffPolicy;
    use serde_json::json;

    fn object(value: Value) -> Config {
        value.as_object().expect("an object").clone().into()
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
        ppo.insert("lr".into(), json!(5e-5));
        let message =
            translate(&mut object(json!({"learner_rate": 1e-3})), &ppo, &[]).unwrap_err().to_string();
        assert!(message.ends_with("`learning_rate` may be meant, and its name here is `lr`"), "{message}");
    }

    #[test]
    fn a_name_of_another_library_without_a_counterpart_is_answered_with_what_to_do_instead() {
        let defaults = object(serde_json::to_value(Common::default()).unwrap());
        for key in OTHERS.no_counterpart.keys() {
            assert!(!is_known(key, &defaults) && synonym(key, &defaults).is_none(), "{key}");
        }
        let refusal = |values| translate(&mut object(values), &defaults, &[]).unwrap_err().to_string();
        let message = refusal(json!({"use_sde": true}));
        assert_eq!(
            message,
            "`use_sde` is true, but it has no counterpart here: noise that depends on the state (gSDE) is in PPO and \
             SAC; leave it out"
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
        translate(&mut values, &Config::new(), &[]).unwrap();
        let known = json!({
            "render_env": false, "model": {}, "placement_strategy": "PACK",
            "multiagent": {"policies": {}, "policy_mapping_fn": null, "count_steps_by": "env_steps"},
        });
        assert_eq!(Value::from(values), known);
        let mut old_defaults = object(json!({"callbacks": {}, "shuffle_buffer_size": false, "vtrace": null}));
        translate(&mut old_defaults, &Config::new(), &[("vtrace", "it is always so")]).unwrap();
        assert!(old_defaults.is_empty(), "{old_defaults:?}");
        for asks in [
            json!({"log_level": "DEBUG"}),
            json!({"model": {"use_attention": true}}),
            json!({"input": "/data/of_a_sampler"}),
            json!({"callbacks": "<class 'mine.MyDefaultCallbacks'>"}),
        ] {
            assert!(translate(&mut object(asks), &Config::new(), &[]).is_err());
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
        translate(&mut values, &Config::new(), refused).unwrap();
        assert_eq!(Value::from(values), json!({"model": {}, "gamma": 0.9}));
        for asks in
            [json!({"horizon": 200}), json!({"vtrace": false}), json!({"model": {"use_attention": true}})]
        {
            assert!(translate(&mut object(asks), &Config::new(), refused).is_err());
        }
    }
}
