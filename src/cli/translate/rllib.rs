//! Translates the settings of RLlib, from JSON files.

use std::path::Path;

use serde_json::Value;

use super::translation::{Translation, read};
use crate::cli::exit::usage;
use crate::registry::AlgorithmEntry;
use crate::trainer::settings::synonym;
use crate::tune::Config;
use crate::tune::config::{Layer, assign};

/// Settings that RLlib counts per learner; they are multiplied by `num_learners`.
const PER_LEARNER: [&str; 2] = ["train_batch_size_per_learner", "minibatch_size"];

/// Translates a JSON file with settings of RLlib (Ray 1 or 2), at the top level or under `config`.
pub(in crate::cli) fn from_rllib(path: &Path, entry: &AlgorithmEntry) -> anyhow::Result<Translation> {
    let shown = path.display();
    let all: Config = serde_json::from_str(&read(path)?)
        .map_err(|error| usage(format!("{shown} is no JSON object with settings: {error}")))?;
    let nested = all.get("config").and_then(Value::as_object).cloned();
    let env = all.get("env").cloned();
    let settings = nested.map_or(all, Config::from);
    let defaults = entry.default_config()?;
    let mut to = Translation::default();
    if let Some(Value::String(env)) = settings.get("env").or(env.as_ref()) {
        to.env = Some(env.clone());
    }
    // RLlib counts the rows of each learner, pavlov those of all learners together.
    let learners = settings.get("num_learners").and_then(Value::as_u64).unwrap_or(1).max(1);
    for (key, value) in &settings {
        let of_each = PER_LEARNER.contains(&key.as_str()).then(|| value.as_u64()).flatten();
        let value = &of_each.map_or_else(|| value.clone(), |each| (each * learners).into());
        match value {
            // RLlib works such values out at the start of a run, as the rules of pavlov's algorithms do.
            Value::String(auto) if auto == "auto" && !takes_auto(&defaults, key) => {
                to.became.push(format!("{key}: \"auto\" -> the default"));
            }
            _ if ["env", "run", "algorithm"].contains(&key.as_str()) => {}
            Value::Object(inner) if key == "model" => {
                inner
                    .iter()
                    .for_each(|(name, value)| take(&mut to, entry, &format!("model.{name}"), None, value));
            }
            // Ray 2.x writes a schedule in place of a number.
            Value::Array(_) if defaults.get(key).is_some_and(Value::is_number) => {
                take(&mut to, entry, key, Some(&format!("{key}_schedule")), value);
            }
            value => {
                let known = defaults.contains_key(key);
                let name = if known { None } else { synonym(key, &defaults) };
                take(&mut to, entry, key, name, value);
            }
        }
    }
    Ok(to)
}

/// Whether "auto" is a value of this setting here.
fn takes_auto(defaults: &Config, key: &str) -> bool {
    key == "evaluation_duration" && defaults.contains_key(key)
}

/// Translates a setting if the algorithm has it and accepts the value; else it is reported as left out.
fn take(to: &mut Translation, entry: &AlgorithmEntry, key: &str, name: Option<&str>, value: &Value) {
    let path = name.unwrap_or(key);
    let mut values = Config::new();
    let parts: Vec<String> = path.split('.').map(String::from).collect();
    assign(&mut values, &parts, value.clone());
    match entry.resolve(vec![Layer { origin: "RLlib".into(), values }]) {
        Err(error) => to.leaves(key, value, &error.to_string()),
        Ok(resolved) => {
            let config = Value::from(resolved.config);
            match config.pointer(&format!("/{}", parts.join("/"))) {
                Some(_) => to.takes(key, path, value.clone()),
                // Some settings, such as `framework`, are accepted without effect.
                None => to.became.push(format!("{key}: {value} -> nothing")),
            }
        }
    }
}
