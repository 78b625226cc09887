//! What of a run's settings and results goes into a packed model: known names with numbers, and nothing else.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::exit::usage;
use crate::envs::{self, python::is_python_id};
use crate::trainer::PackFacts;
use crate::tune::Config;
use crate::tune::checkpoint::Metadata;

/// Settings of the training that are kept if they are numbers or true or false.
const NUMBERS: &[&str] = &[
    "clip_param",
    "entropy_coeff",
    "gamma",
    "grad_clip",
    "kl_coeff",
    "kl_target",
    "lambda",
    "lr",
    "mask_actions",
    "n_step",
    "num_envs_per_worker",
    "num_sgd_iter",
    "num_workers",
    "rollout_fragment_length",
    "seed",
    "sgd_minibatch_size",
    "target_network_update_freq",
    "tau",
    "train_batch_size",
    "use_critic",
    "use_gae",
    "vf_clip_param",
    "vf_loss_coeff",
];

/// Number of points of the learning curve.
const POINTS: usize = 100;
/// Longest line of `result.json` that is read, in bytes.
const MAX_LINE: usize = 1 << 22;

/// What is kept, and in words what is not.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) facts: PackFacts,
    pub(super) left_out: Vec<String>,
}

/// Chooses what a packed model says about a run; `run_dir` has its results.
pub(super) fn keep(
    algorithm: &str,
    metadata: &Metadata,
    run_dir: Option<&Path>,
    allow_own_names: bool,
) -> anyhow::Result<Kept> {
    let config = &metadata.config;
    let mut settings = Config::new();
    let mut left_out = Vec::new();
    settings.insert("algorithm".into(), algorithm.into());
    let env = config.get("env").and_then(Value::as_str).unwrap_or_default();
    let is_known =
        envs::ids().iter().chain(&envs::multi_agent_ids()).any(|id| id == env) && !is_python_id(env);
    if is_path(env) || !(is_known || allow_own_names) {
        let way = if is_path(env) { "" } else { " (--allow-env-name keeps it)" };
        left_out.push(format!("the name of the environment{way}"));
    } else {
        settings.insert("env".into(), env.into());
    }
    let mut env_config = Config::new();
    for (name, value) in config.get("env_config").and_then(Value::as_object).into_iter().flatten() {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_plain && (value.is_number() || value.is_boolean()) {
            env_config.insert(name.clone(), value.clone());
        } else {
            left_out.push(format!("env_config.{name}, which is no number and not true or false"));
        }
    }
    settings.insert("env_config".into(), env_config.into());
    let wrappers = config.get("wrappers").cloned().unwrap_or_else(|| json!([]));
    let texts = wrappers.as_array().into_iter().flatten().map(Value::to_string);
    for text in texts {
        let inner = text.trim_matches('"');
        if !allow_own_names && (inner.contains(['"', '\\', '/', '{']) || is_path(inner)) {
            return Err(usage(format!(
                "the wrapper {inner} has a text among its arguments, which a packed model does not keep; give \
                 --allow-env-name if everybody may read it"
            )));
        }
    }
    settings.insert("wrappers".into(), wrappers);
    let mut trained_with = Config::new();
    for key in NUMBERS {
        let value = config.get(*key).filter(|value| value.is_number() || value.is_boolean());
        trained_with.extend(value.map(|value| ((*key).to_owned(), value.clone())));
    }
    settings.insert("trained_with".into(), trained_with.into());
    let mut results = Config::new();
    results.insert("training_iteration".into(), metadata.iteration.into());
    results.insert("timesteps_total".into(), metadata.timesteps_total.into());
    let curve = run_dir.map(|dir| curve(&dir.join("result.json"), metadata.iteration)).unwrap_or_default();
    results.insert("curve".into(), json!(curve));
    let facts = PackFacts { settings, results, card: String::new(), licence: String::new() };
    Ok(Kept { facts, left_out })
}

/// Whether a name could be a path, or has one in it.
fn is_path(name: &str) -> bool {
    name.contains(['\\', '$', '~'])
        || name.split(['/', ':']).any(|part| part == "..")
        || name.starts_with(['/', '.'])
        || name.contains(":/")
        || name.contains("://")
        || name.ends_with(".py")
}

/// The learning curve up to an iteration: pairs of environment steps and mean return, 100 at most.
fn curve(results: &Path, last: u64) -> Vec<[f64; 2]> {
    let Ok(file) = File::open(results) else { return Vec::new() };
    let mut points = Vec::new();
    for line in BufReader::new(file).lines().map_while(std::io::Result::ok) {
        let Some(result) =
            (line.len() <= MAX_LINE).then(|| serde_json::from_str::<Value>(&line).ok()).flatten()
        else {
            continue;
        };
        if result["training_iteration"].as_u64().is_some_and(|iteration| iteration <= last) {
            let steps = result["timesteps_total"].as_f64();
            let mean = result["episode_reward_mean"].as_f64();
            points.extend(steps.zip(mean).map(|(steps, mean)| [steps, mean]));
        }
    }
    if points.len() <= POINTS {
        return points;
    }
    (0..POINTS).map(|i| points[i * (points.len() - 1) / (POINTS - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::is_path;

    #[test]
    fn a_path_is_told_from_an_id() {
        for path in [
            "/home/a/env.py",
            "~/env",
            "py:/opt/x:Env-v0",
            "./env",
            "../env",
            "a/../b",
            "s3://a",
            "C:\\x",
            "$HOME/x",
            "m.py",
        ] {
            assert!(is_path(path), "{path}");
        }
        for id in ["CartPole-v1", "ALE/Pong-v5", "py:gymnasium.envs:Env-v0", "pz:pettingzoo.classic.chess_v6"]
        {
            assert!(!is_path(id), "{id}");
        }
    }
}
