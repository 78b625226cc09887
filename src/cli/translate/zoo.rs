//! Translates the settings of RL Baselines3 Zoo, from YAML files.

use std::path::Path;

use serde_json::{Value, json};

use super::translation::{Translation, read};
use crate::cli::exit::usage;
use crate::presets;
use crate::registry::AlgorithmEntry;
use crate::tune::Config;
use crate::tune::config::nearest;

/// Translates a file of RL Baselines3 Zoo, or the settings of one environment in the same format. Settings that the file
/// does not have get the defaults of Stable-Baselines3.
pub(in crate::cli) fn from_sb3(
    path: &Path,
    entry: &AlgorithmEntry,
    env: &str,
) -> anyhow::Result<Translation> {
    let shown = path.display();
    let base = presets::preset(&format!("{}-sb3", entry.name().to_lowercase()));
    let Ok(base) = base else {
        let name = entry.name();
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
    let mut zoo =
        Zoo { settings, steps: None, to: Translation { config: base.config, ..Translation::default() } };
    if let Some(name) = name.filter(|name| *name != id) {
        zoo.to.became.push(format!("the settings of {name} -> {id}"));
    }
    zoo.steps = settings.get("n_timesteps").and_then(number);
    zoo.translate(entry.name());
    Ok(zoo.to)
}

/// The section of a file for an environment, with its name: that of the id, of another version of the same environment (the
/// newest first), or of the group `atari`.
fn section<'a>(all: &'a Config, id: &str) -> (Option<&'a str>, Option<&'a Value>) {
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

/// Translation of the settings of one environment in RL Baselines3 Zoo's format.
struct Zoo<'a> {
    settings: &'a Config,
    /// Number of environment steps of the run, at which schedules end.
    steps: Option<f64>,
    to: Translation,
}

impl Zoo<'_> {
    fn number(&self, key: &str) -> Option<f64> {
        self.settings.get(key).and_then(number)
    }

    fn translate(&mut self, algorithm: &str) {
        let settings = self.settings;
        for (key, value) in settings {
            let done = self.common(key, value)
                || match algorithm {
                    "PPO" => self.ppo(key, value),
                    _ => self.off_policy(key, value, algorithm),
                };
            if !done {
                let why = match key.as_str() {
                    "use_sde" | "sde_sample_freq" => "there is no state-dependent exploration",
                    "env_wrapper" | "frame_stack" | "vec_env_wrapper" => "wrap the environment itself",
                    "callback" => "it is code",
                    _ => "there is no such setting, or not for such a value",
                };
                self.to.leaves(key, value, why);
            }
        }
        let copies = self.number("n_envs").unwrap_or(1.0);
        if algorithm == "PPO" {
            let rows = copies * self.number("n_steps").unwrap_or(2048.0);
            self.to.takes("n_envs * n_steps", "train_batch_size", rows as u64);
            // Stable-Baselines3 takes all rows in one minibatch then.
            if self.number("batch_size").unwrap_or(64.0) > rows {
                self.to.takes("batch_size, one minibatch", "sgd_minibatch_size", rows as u64);
            }
        } else {
            self.rhythm(copies);
        }
    }

    /// Translates a setting that all algorithms have; returns false if `key` is none of them.
    fn common(&mut self, key: &str, value: &Value) -> bool {
        let to = &mut self.to;
        match (key, number(value)) {
            ("n_timesteps", Some(steps)) => {
                to.became.push(format!("{key} -> stop timesteps_total={steps}"));
                to.stop.insert("timesteps_total".into(), json!(steps as u64));
            }
            ("n_envs", Some(copies)) => to.takes(key, "num_envs_per_worker", copies as u64),
            ("gamma", Some(gamma)) => to.takes(key, "gamma", gamma),
            ("policy", _) if *value == "MlpPolicy" => {
                to.became.push(format!("{key} -> fully connected layers"))
            }
            ("use_sde", _) if *value == false => to.became.push(format!("{key}: false -> nothing")),
            ("normalize", _) if *value == false => to.became.push(format!("{key}: false -> nothing")),
            ("normalize", _) => {
                to.takes(key, "observation_filter", "MeanStdFilter");
                to.leaves(key, value, "rewards are not normalised here; observations are");
            }
            ("policy_kwargs", _) => self.policy_kwargs(value),
            _ => return false,
        }
        true
    }

    fn ppo(&mut self, key: &str, value: &Value) -> bool {
        let to = &mut self.to;
        let number = number(value);
        match (key, number) {
            ("learning_rate" | "clip_range", None) => return self.schedule(key, value),
            ("n_steps", Some(steps)) => to.takes(key, "rollout_fragment_length", steps as u64),
            ("batch_size", Some(rows)) => to.takes(key, "sgd_minibatch_size", rows as u64),
            ("n_epochs", Some(passes)) => to.takes(key, "num_sgd_iter", passes as u64),
            ("learning_rate", Some(rate)) => to.takes(key, "lr", rate),
            ("gae_lambda", Some(lambda)) => to.takes(key, "lambda", lambda),
            ("clip_range", Some(range)) => to.takes(key, "clip_param", range),
            ("clip_range_vf", Some(range)) => {
                to.set("vf_clip", "around_old");
                to.takes(key, "vf_clip_param", range);
            }
            ("ent_coef", Some(weight)) => to.takes(key, "entropy_coeff", weight),
            ("vf_coef", Some(weight)) => to.takes(key, "vf_loss_coeff", weight),
            ("max_grad_norm", Some(bound)) => to.takes(key, "grad_clip", bound),
            ("target_kl", Some(kl)) => to.takes(key, "target_kl", kl),
            ("normalize_advantage", _) if *value == false => to.takes(key, "normalize_advantages", "none"),
            ("normalize_advantage", _) => to.takes(key, "normalize_advantages", "minibatch"),
            _ => return false,
        }
        true
    }

    fn off_policy(&mut self, key: &str, value: &Value, algorithm: &str) -> bool {
        let steps = self.steps;
        let is_dqn = algorithm == "DQN";
        let is_sac = algorithm == "SAC";
        // Stable-Baselines3 does not learn a temperature that is given as a number.
        let alpha_stays = self.settings.get("ent_coef").is_some_and(|alpha| number(alpha).is_some());
        let to = &mut self.to;
        let number = number(value);
        match (key, number) {
            ("learning_rate", None) if is_dqn => return self.schedule(key, value),
            ("learning_rate", Some(rate)) if is_dqn => to.takes(key, "lr", rate),
            ("learning_rate", Some(rate)) if !is_sac => {
                for whose in ["actor_lr", "critic_lr"] {
                    to.takes(key, whose, rate);
                }
            }
            ("learning_rate", Some(rate)) => {
                let all = ["actor", "critic", "entropy"];
                for whose in &all[..if alpha_stays { 2 } else { 3 }] {
                    to.takes(key, &format!("optimization.{whose}_learning_rate"), rate);
                }
            }
            ("batch_size", Some(rows)) => to.takes(key, "train_batch_size", rows as u64),
            ("buffer_size", Some(rows)) => to.takes(key, "replay_buffer_config.capacity", rows as u64),
            ("learning_starts", Some(rows)) => {
                to.takes(key, "replay_buffer_config.learning_starts", rows as u64);
                if !is_dqn {
                    to.takes(key, "exploration_config.random_timesteps", rows as u64);
                }
            }
            // Both are translated together in `rhythm`.
            ("train_freq" | "gradient_steps", _) => {}
            ("target_update_interval", Some(steps)) if is_dqn => {
                to.takes(key, "target_network_update_freq", steps as u64);
            }
            ("exploration_fraction", Some(share)) if is_dqn && steps.is_some() => {
                let steps = (share * steps.unwrap_or_default()) as u64;
                to.takes(key, "exploration_config.epsilon_timesteps", steps);
            }
            ("exploration_initial_eps", Some(epsilon)) if is_dqn => {
                to.takes(key, "exploration_config.initial_epsilon", epsilon);
            }
            ("exploration_final_eps", Some(epsilon)) if is_dqn => {
                to.takes(key, "exploration_config.final_epsilon", epsilon);
            }
            ("max_grad_norm", Some(bound)) if is_dqn => to.takes(key, "grad_clip", bound),
            ("tau", Some(tau)) if !is_dqn => to.takes(key, "tau", tau),
            ("policy_delay", Some(steps)) if !is_dqn && !is_sac => to.takes(key, key, steps as u64),
            ("target_policy_noise", Some(noise)) if !is_dqn && !is_sac => {
                to.takes(key, "target_noise", noise)
            }
            ("target_noise_clip", Some(most)) if !is_dqn && !is_sac => to.takes(key, key, most),
            ("noise_type", _) if !is_dqn && !is_sac && *value == "normal" => {
                to.takes(key, "exploration_config.type", "GaussianNoise");
            }
            ("noise_std", Some(stddev)) if !is_dqn && !is_sac => {
                to.takes(key, "exploration_config.stddev", stddev);
            }
            ("ent_coef", Some(alpha)) if is_sac && alpha > 0.0 => {
                to.takes(key, "initial_alpha", alpha);
                to.takes(key, "optimization.entropy_learning_rate", 0.0);
            }
            ("ent_coef", None) if is_sac && *value == "auto" => to.takes(key, "initial_alpha", 1.0),
            ("ent_coef", None) if is_sac => {
                let first = value.as_str().and_then(|text| text.strip_prefix("auto_")?.parse::<f64>().ok());
                let Some(first) = first else { return false };
                to.takes(key, "initial_alpha", first);
            }
            _ => return false,
        }
        true
    }

    /// Translates `train_freq` and `gradient_steps`: the steps between two updates, and the number of updates.
    fn rhythm(&mut self, copies: f64) {
        let default = self.to.config.get("rollout_fragment_length").and_then(Value::as_f64).unwrap_or(1.0);
        let given = self.settings.get("train_freq").map(|value| match value {
            Value::Array(pair) if pair.get(1).is_some_and(|unit| unit == "step") => number(&pair[0]),
            value => number(value),
        });
        let freq = match given {
            Some(None) => {
                let value = self.settings["train_freq"].clone();
                self.to.leaves("train_freq", &value, "learning follows steps, not episodes");
                default
            }
            Some(Some(freq)) => freq,
            None => default,
        };
        self.to.takes("train_freq", "rollout_fragment_length", freq as u64);
        let steps = self.number("gradient_steps").unwrap_or(1.0);
        let steps = if steps < 0.0 { freq * copies } else { steps };
        let rows = self.to.config.get("train_batch_size").and_then(Value::as_f64).unwrap_or(1.0);
        self.to.takes("gradient_steps", "training_intensity", steps * rows / (freq * copies));
    }

    /// Translates a linear schedule: `lin_0.001` goes from 0.001 to 0 at the end of the run.
    fn schedule(&mut self, key: &str, value: &Value) -> bool {
        let first = value.as_str().and_then(|text| text.strip_prefix("lin_")?.parse::<f64>().ok());
        let (Some(first), Some(steps)) = (first, self.steps) else { return false };
        let path = if key == "learning_rate" { "lr_schedule" } else { "clip_param_schedule" };
        self.to.takes(key, path, json!([[0, first], [steps as u64, 0.0]]));
        true
    }

    /// Translates keyword arguments in Python syntax: `dict(net_arch=[64, 64], activation_fn=nn.ReLU)`.
    fn policy_kwargs(&mut self, value: &Value) {
        let text = value.as_str().unwrap_or_default();
        let inner = text.trim().strip_prefix("dict(").and_then(|rest| rest.trim_end().strip_suffix(')'));
        let Some(inner) = inner else {
            self.to.leaves("policy_kwargs", value, "it is read as `dict(net_arch=.., activation_fn=..)`");
            return;
        };
        let has = |key: &str| self.to.config.contains_key(key);
        // Prefixes of the networks' settings, and the names of their layers and activations.
        let (networks, names) = if has("policy_model_config") {
            (&["policy_model_config.", "q_model_config."][..], ["fcnet_hiddens", "fcnet_activation"])
        } else if has("actor_hiddens") {
            (&["actor_", "critic_"][..], ["hiddens", "hidden_activation"])
        } else {
            (&["model."][..], ["fcnet_hiddens", "fcnet_activation"])
        };
        for (name, text) in arguments(inner) {
            let key = format!("policy_kwargs.{name}");
            let (path, value) = match name {
                "net_arch" => (names[0], hidden_layers(text)),
                "activation_fn" => (names[1], activation(text)),
                _ => ("", None),
            };
            match value {
                Some(value) => networks.iter().for_each(|network| {
                    self.to.takes(&key, &format!("{network}{path}"), value.clone());
                }),
                None => {
                    self.to.leaves(&key, &json!(text), "there is no such setting, or not for such a value");
                }
            }
        }
    }
}

/// Returns a finite number, also from a text, because YAML reads `1e5` as text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number: &f64| number.is_finite())
}

/// Splits keyword arguments into names and values: `a=1, b=[2, 3]` gives `("a", "1")` and `("b", "[2, 3]")`.
fn arguments(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                if let Some((name, value)) = text[start..at].split_once('=') {
                    found.push((name.trim(), value.trim()));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// Parses the sizes of hidden layers: `[64, 64]`, or `dict(pi=[64], vf=[64])` if all lists are equal.
fn hidden_layers(text: &str) -> Option<Value> {
    let list = |text: &str| serde_json::from_str::<Vec<u64>>(text).ok();
    let inner = match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) if inner.trim_start().starts_with("dict(") => inner,
        _ => text,
    };
    let Some(inner) = inner.trim().strip_prefix("dict(").and_then(|rest| rest.strip_suffix(')')) else {
        return list(text).map(Value::from);
    };
    let mut all = arguments(inner).into_iter().map(|(_, text)| list(text));
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first)).then(|| first.into())
}

fn activation(text: &str) -> Option<Value> {
    match text.rsplit('.').next()? {
        "ReLU" => Some("relu".into()),
        "Tanh" => Some("tanh".into()),
        "ELU" => Some("elu".into()),
        "SiLU" => Some("swish".into()),
        _ => None,
    }
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
