//! The model card that a packed model gets if the user writes none.

use std::fmt::Write;

use serde_json::Value;

use crate::trainer::{Pack, PackFacts};

/// Words of every card that is made, by which it is told from one that its author wrote.
pub(in crate::cli) const MADE: &str = "A policy that was trained by reinforcement learning with pavlov ";

/// Writes the card of a packed model, in Markdown.
pub(super) fn card(pack: &Pack, facts: &PackFacts) -> String {
    let PackFacts { settings, results, licence, .. } = facts;
    let algorithm = settings.get("algorithm").and_then(Value::as_str).unwrap_or("a policy");
    let env = settings.get("env").and_then(Value::as_str);
    let mut text = format!(
        "# {algorithm} on {}\n\n{MADE}{}.\n\n",
        env.unwrap_or("an environment without a public name"),
        pack.version()
    );
    let _ = writeln!(text, "* Observations: {}", pack.observation_space());
    let _ = writeln!(text, "* Actions: {}", pack.action_space());
    let is_set = |value: &&Value| value.as_object().is_none_or(|all| !all.is_empty());
    let is_set = |value: &&Value| is_set(value) && value.as_array().is_none_or(|all| !all.is_empty());
    for (name, key) in [("Wrappers of the environment", "wrappers"), ("Its settings", "env_config")] {
        if let Some(value) = settings.get(key).filter(is_set) {
            let _ = writeln!(text, "* {name}: `{value}`");
        }
    }
    let _ = writeln!(text, "* Size: {} weights", pack.weights());
    if let Some(steps) = results.get("timesteps_total") {
        let _ = writeln!(text, "* Training: {steps} environment steps");
    }
    let _ = writeln!(text, "* Licence of the weights: {licence}");
    text.push_str("\n## Scores\n\n");
    match results.get("evaluation") {
        Some(of) => {
            let number = |key: &str| of.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
            let _ = writeln!(
                text,
                "Mean return {:.2} (deviation {:.2}, {:.2} to {:.2}) of {} episodes of seed {}, with the best actions:\n\n    \
                 pavlov evaluate model.pavlov --episodes {4} --seed {5}",
                number("episode_reward_mean"),
                number("episode_reward_std"),
                number("episode_reward_min"),
                number("episode_reward_max"),
                of.get("episodes").unwrap_or(&Value::Null),
                of.get("seed").unwrap_or(&Value::Null),
            );
        }
        None => text.push_str("None were measured when it was packed.\n"),
    }
    let curve = results.get("curve").and_then(Value::as_array);
    if let Some([.., last]) = curve.map(Vec::as_slice) {
        let _ = writeln!(
            text,
            "\nMean return at the end of the training, while exploring: {:.2}. The learning curve is in the file \
             (`pavlov show model.pavlov --json`).",
            last.get(1).and_then(Value::as_f64).unwrap_or(f64::NAN)
        );
    }
    text.push_str(
        "\n## How to use it\n\n    pavlov evaluate model.pavlov\n    pavlov serve model.pavlov\n    \
         pavlov export model.pavlov --out policy.onnx\n\nIn Rust: `pavlov::load(\"model.pavlov\")?.act(&observation)?`.\n\n\
         ## Limits\n\nIt was tried in no other environment, and with no other settings of this one, than those above.\n",
    );
    text
}
