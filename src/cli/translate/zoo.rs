//! Translates the settings of RL Baselines3 Zoo, from YAML files.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::python;
use super::translation::{Translation, read};
use crate::cli::exit::usage;
use crate::registry::AlgorithmEntry;
use crate::sb3::{self, Became, Class};
use crate::tune::Config;
use crate::tune::config::nearest;

/// Translates a file of RL Baselines3 Zoo, or the settings of one environment in the same format. Settings that the file
/// does not have get the defaults of Stable-Baselines3. The files of the Zoo are named by the class that they are for.
pub(in crate::cli) fn from_sb3(
    path: &Path,
    entry: &AlgorithmEntry,
    env: &str,
) -> anyhow::Result<Translation> {
    let shown = path.display();
    let name = entry.name();
    let named = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("a2c") if name == "PPO" => "A2C",
        Some("tqc") if name == "SAC" => "TQC",
        Some(stem @ ("a2c" | "ars" | "ddpg" | "dqn" | "ppo" | "qrdqn" | "sac" | "td3" | "tqc" | "trpo"))
            if !stem.eq_ignore_ascii_case(name) =>
        {
            let rule = "take the algorithm's own file; `a2c.yml` is for PPO and `tqc.yml` for SAC";
            return Err(usage(format!(
                "{shown} has settings of {}, not of {name}: {rule}",
                stem.to_uppercase()
            )));
        }
        _ => name,
    };
    let Some(class) = Class::named(named).filter(|class| class.preset.is_some()) else {
        return Err(usage(format!(
            "--from-sb3 translates for PPO, DQN, SAC, TD3 and DDPG, not for {name}; give a --config"
        )));
    };
    let wrong = |error: &dyn std::fmt::Display| usage(format!("{shown} is no YAML with settings: {error}"));
    let mut yaml: yaml_serde::Value = yaml_serde::from_str(&read(path)?).map_err(|error| wrong(&error))?;
    yaml.apply_merge().map_err(|error| wrong(&error))?;
    let all: Config = yaml_serde::from_value(yaml).map_err(|error| wrong(&error))?;
    // The id itself of `py:module:id`.
    let id = env.rsplit(':').next().unwrap_or(env);
    let (name, found) = section(&all, id);
    let settings = match found {
        Some(Value::Object(settings)) => settings,
        _ if all.contains_key("policy") || all.contains_key("n_timesteps") => &all,
        _ => {
            let near = nearest(id, all.keys().map(String::as_str));
            let near = near.map(|near| format!("; nearest: {near}")).unwrap_or_default();
            return Err(usage(format!("{shown} has no settings for {id}{near}")));
        }
    };
    let mut to = Translation::default();
    if let Some(name) = name.filter(|name| *name != id) {
        to.became.push(format!("the settings of {name} -> {id}"));
    }
    translate(class, settings, &mut to);
    Ok(to)
}

/// The section of a file for an environment, with its name: that of the id, of another version of the same environment (the
/// newest first), or of the group `atari`.
fn section<'a>(all: &'a Map<String, Value>, id: &str) -> (Option<&'a str>, Option<&'a Value>) {
    let base = |name: &str| name.rsplit_once("-v").map(|(base, _)| base.to_owned());
    let version = |name: &str| name.rsplit_once("-v").and_then(|(_, version)| version.parse::<u32>().ok());
    let is_atari = id.starts_with("ALE/") || id.contains("NoFrameskip");
    let other = all.keys().filter(|name| base(id).is_some() && base(name) == base(id));
    let name = all
        .keys()
        .find(|name| *name == id)
        .or_else(|| other.max_by_key(|name| version(name)))
        .or_else(|| all.keys().find(|name| is_atari && *name == "atari"));
    (name.map(String::as_str), name.and_then(|name| all.get(name)))
}

/// Translates the settings of one environment. What they are beside arguments of the class is translated here.
fn translate(class: &Class, settings: &Map<String, Value>, to: &mut Translation) {
    let steps = settings.get("n_timesteps").and_then(number);
    let copies = settings.get("n_envs").and_then(number).unwrap_or(1.0) as u64;
    let mut arguments = Config::new();
    let mut noise = Config::new();
    let mut policy = "MlpPolicy";
    for (key, value) in settings {
        match (key.as_str(), number(value)) {
            ("n_timesteps", Some(steps)) => {
                to.became.push(format!("{key} -> stop timesteps_total={steps}"));
                to.stop.insert("timesteps_total".into(), json!(steps as u64));
            }
            ("n_envs", Some(copies)) => to.takes(key, "num_envs_per_worker", copies as u64),
            ("policy", _) if *value == "MlpPolicy" || *value == "MultiInputPolicy" => {
                to.became.push(format!("{key} -> fully connected layers"));
            }
            ("policy", _) if *value == "CnnPolicy" => policy = "CnnPolicy",
            ("policy", _) => {
                to.leaves(key, value, "MlpPolicy, MultiInputPolicy and CnnPolicy are translated")
            }
            ("normalize", _) if *value == false => to.became.push(format!("{key}: false -> nothing")),
            ("normalize", _) => normalize(key, value, to),
            ("replay_buffer_kwargs", _) => match value.as_str().and_then(python::value) {
                Some(Value::Object(parts)) => {
                    arguments.insert(key.clone(), parts.into());
                }
                _ => to.leaves(
                    key,
                    value,
                    "it is read as `dict(n_sampled_goal=.., goal_selection_strategy=..)`",
                ),
            },
            ("policy_kwargs", _) => match value.as_str().and_then(python::value) {
                Some(Value::Object(parts)) => {
                    arguments.insert(key.clone(), parts.into());
                }
                _ => to.leaves(key, value, "it is read as `dict(net_arch=.., activation_fn=..)`"),
            },
            ("noise_type" | "noise_std", _) => {
                noise.insert(key.clone(), value.clone());
            }
            ("env_wrapper" | "frame_stack" | "vec_env_wrapper", _) => {
                to.leaves(key, value, "wrap the environment itself");
            }
            ("callback", _) => to.leaves(key, value, "it is code"),
            ("exploration_fraction" | "exploration_initial_eps" | "exploration_final_eps", _)
                if steps.is_none() =>
            {
                to.leaves(key, value, "the length of the run is unknown; add n_timesteps");
            }
            _ => match linear(value) {
                Some(_) if steps.is_none() => {
                    to.leaves(key, value, "the length of the run is unknown; add n_timesteps");
                }
                Some(first) => {
                    arguments.insert(key.clone(), json!({"schedule": [first, 0.0]}));
                }
                // YAML reads `1e5` as text.
                None => {
                    let value =
                        number(value).filter(|_| value.is_string()).map_or(value.clone(), Value::from);
                    arguments.insert(key.clone(), value);
                }
            },
        }
    }
    if let Some(value) = action_noise(&noise, to) {
        arguments.insert("action_noise".into(), value);
    }
    let span = steps.map(|steps| (0, steps as u64));
    let translated = sb3::translate(class, policy, &arguments, copies, span);
    for refused in translated.refused {
        let key = refused.argument.strip_prefix("policy_kwargs.").unwrap_or(&refused.argument);
        let value = [settings.get(key), arguments.get("policy_kwargs").and_then(|parts| parts.get(key))];
        to.leaves(
            &refused.argument,
            value.into_iter().flatten().next().unwrap_or(&Value::Null),
            &refused.why,
        );
    }
    let is_given = |label: &str| {
        let names = label.split(", ").flat_map(|part| part.split(" * "));
        names.map(|name| name.split_once('.').map_or(name, |(dictionary, _)| dictionary)).any(|name| {
            match name.strip_suffix('*') {
                Some(start) => arguments.keys().any(|key| key.starts_with(start)),
                None => name == "n_envs" || name == "CnnPolicy" || arguments.contains_key(name),
            }
        })
    };
    let told = translated.became.iter().filter(|became| is_given(&became.argument));
    to.became.extend(told.map(|Became { argument, path, value }| format!("{argument} -> {path}={value}")));
    for (key, value) in &arguments {
        if class.asks_for_nothing(key, value) {
            to.became.push(format!("{key}: {value} -> nothing"));
        }
    }
    let own = std::mem::replace(&mut to.config, translated.config);
    to.config.extend(own);
}

/// Translates the arguments of `VecNormalize`, or true for its defaults: observations and rewards are normalised.
fn normalize(key: &str, value: &Value, to: &mut Translation) {
    let given = value.as_str().and_then(python::value);
    let is_on = |name| given.as_ref().and_then(|given| given.get(name)).is_none_or(|flag| *flag != false);
    if is_on("norm_obs") {
        to.takes(key, "observation_filter", "MeanStdFilter");
    }
    if is_on("norm_reward") {
        to.leaves(key, value, "rewards are not normalised here");
    }
}

/// Returns the noise of `noise_type` and `noise_std` as an argument.
fn action_noise(noise: &Config, to: &mut Translation) -> Option<Value> {
    let kind = noise
        .get("noise_type")
        .filter(|kind| ["normal", "ornstein-uhlenbeck"].iter().any(|name| *kind == name));
    if let (Some(kind), Some(stddev)) = (kind, noise.get("noise_std").and_then(number)) {
        return Some(json!({"noise": {"type": kind, "sigma": stddev}}));
    }
    for (key, value) in noise {
        to.leaves(key, value, "noise is normal or ornstein-uhlenbeck, with a noise_std");
    }
    None
}

/// Returns the first value of a linear schedule: `lin_0.001` goes from 0.001 to 0 at the end of the run.
fn linear(value: &Value) -> Option<f64> {
    value.as_str()?.strip_prefix("lin_")?.parse().ok()
}

/// Returns a finite number, also from a text, because YAML reads `1e5` as text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_game_of_atari_has_the_settings_of_its_group_unless_it_has_its_own() {
        let file = json!({"atari": 1, "PongNoFrameskip-v4": 2, "Pendulum-v1": 3});
        let file = file.as_object().unwrap();
        let name = |id: &str| section(file, id).0;
        assert_eq!(name("ALE/Breakout-v5"), Some("atari"));
        assert_eq!(name("BreakoutNoFrameskip-v4"), Some("atari"));
        assert_eq!(name("PongNoFrameskip-v4"), Some("PongNoFrameskip-v4"));
        assert_eq!(name("PixelPong-v0"), None);
    }
}
