//! `replay_buffer_class` and `replay_buffer_kwargs`: which replay buffer a model has.

use serde_json::{Value, json};

use super::values::number;
use super::work::Work;

/// The names of the buffers that Stable-Baselines3 takes by itself.
const PLAIN: [&str; 2] = ["ReplayBuffer", "DictReplayBuffer"];

/// Translates the class of the replay buffer and its arguments.
pub(super) fn translate(work: &mut Work<'_>) {
    let class = work.all["replay_buffer_class"].clone();
    let is_her = class == "HerReplayBuffer";
    if !is_her && !class.is_null() && !PLAIN.iter().any(|name| class == *name) {
        return work.refuse("replay_buffer_class", "it must be HerReplayBuffer, or None");
    }
    if is_her {
        work.to.set("replay_buffer_class", "replay_buffer_config.type", "HerReplayBuffer");
    }
    let Value::Object(given) = work.all["replay_buffer_kwargs"].clone() else { return };
    for (key, value) in &given {
        if let Err(why) = argument(work, key, value, is_her) {
            work.refuse_value("replay_buffer_kwargs", &json!({key: value}), why);
        }
    }
}

/// Translates one argument of the buffer; fails with the reason if it is refused.
fn argument(work: &mut Work<'_>, key: &str, value: &Value, is_her: bool) -> Result<(), &'static str> {
    let name = format!("replay_buffer_kwargs.{key}");
    match key {
        "handle_timeout_termination" if *value == true => {}
        "optimize_memory_usage" if *value == false => {}
        "handle_timeout_termination" => return Err("truncated episodes are always bootstrapped: True"),
        "optimize_memory_usage" => return Err("observations are stored once already: False"),
        "n_sampled_goal" | "goal_selection_strategy" | "copy_info_dict" if !is_her => {
            return Err("it is an argument of HerReplayBuffer; give `replay_buffer_class=HerReplayBuffer`");
        }
        "copy_info_dict" if *value == false => {}
        "copy_info_dict" => {
            return Err("infos are not stored, and `compute_reward` gets an empty one for each row: False");
        }
        "n_sampled_goal" => {
            let goals = number(value).filter(|goals| goals.fract() == 0.0 && *goals >= 1.0);
            let goals = goals.ok_or("it must be a whole number, 1 or more")?;
            work.to.set(&name, "replay_buffer_config.n_sampled_goal", goals as u64);
        }
        "goal_selection_strategy" => {
            let strategy = value.as_str().map(str::to_lowercase);
            let strategy = strategy.filter(|name| ["future", "final", "episode"].contains(&name.as_str()));
            let strategy = strategy.ok_or("it must be 'future', 'final' or 'episode'")?;
            work.to.set(&name, "replay_buffer_config.goal_selection_strategy", strategy);
        }
        _ => return Err("HerReplayBuffer has n_sampled_goal, goal_selection_strategy and copy_info_dict"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::sb3::table::Class;
    use crate::sb3::translate::translate;

    fn translated(class: &str, given: &serde_json::Value) -> crate::sb3::Translated {
        let given = given.as_object().unwrap().clone().into();
        translate(Class::named(class).unwrap(), "MultiInputPolicy", &given, 1, None)
    }

    #[test]
    fn her_of_all_five_classes_becomes_settings_of_the_replay_buffer() {
        let kwargs =
            json!({"n_sampled_goal": 2, "goal_selection_strategy": "FINAL", "copy_info_dict": false});
        for class in ["DQN", "SAC", "TQC", "TD3", "DDPG"] {
            let given = json!({"replay_buffer_class": "HerReplayBuffer", "replay_buffer_kwargs": kwargs});
            let translated = translated(class, &given);
            assert_eq!(translated.refused, [], "{class}");
            let buffer = &translated.config["replay_buffer_config"];
            assert_eq!(buffer["type"], "HerReplayBuffer", "{class}");
            assert_eq!(buffer["n_sampled_goal"], 2, "{class}");
            assert_eq!(buffer["goal_selection_strategy"], "final", "{class}");
        }
    }

    #[test]
    fn what_her_does_not_have_is_refused_with_the_reason() {
        let her = |kwargs| json!({"replay_buffer_class": "HerReplayBuffer", "replay_buffer_kwargs": kwargs});
        for (given, why) in [
            (json!({"replay_buffer_class": "Mine"}), "it must be HerReplayBuffer, or None"),
            (
                json!({"replay_buffer_kwargs": {"n_sampled_goal": 4}}),
                "give `replay_buffer_class=HerReplayBuffer`",
            ),
            (her(json!({"n_sampled_goal": 0})), "1 or more"),
            (her(json!({"goal_selection_strategy": "random"})), "'future', 'final' or 'episode'"),
            (her(json!({"copy_info_dict": true})), "infos are not stored"),
            (her(json!({"online_sampling": true})), "HerReplayBuffer has n_sampled_goal"),
        ] {
            let refused = translated("SAC", &given).refused;
            assert_eq!(refused.len(), 1, "{given}");
            assert!(refused[0].sentence.contains(why), "{}", refused[0].sentence);
        }
    }
}
