//! Under which tag TensorBoard shows a number: in groups, and each number once.

/// Numbers that stand in a result a second time under these keys.
const REPEATED: [&str; 4] = [
    // `timesteps_total`, `agent_timesteps_total` and `timesteps_this_iter`.
    "num_env_steps_sampled",
    "num_agent_steps_sampled",
    "num_env_steps_sampled_this_iter",
    "counters",
];

/// The tag for the flat key of a result; `None`: it is not plotted.
///
/// `rollout/` holds the episodes, `train/` what learning says, `eval/` evaluations, `time/` steps and seconds. What a
/// trainable reports besides has its own key as tag.
pub(super) fn tag(key: &str) -> Option<String> {
    let (top, below) = key.split_once('/').unwrap_or((key, ""));
    let tag = match top {
        "config" | "pid" | "timestamp" | "time_total_s" | "training_iteration" | "sampler_results" => {
            return None;
        }
        top if REPEATED.contains(&top) => return None,
        "info" => return train(below),
        "evaluation" if below.starts_with("sampler_results/") => return None,
        "evaluation" => format!("eval/{below}"),
        "custom_metrics" | "hist_stats" => format!("rollout/{key}"),
        _ if top.starts_with("episode") || top.starts_with("policy_reward_") => format!("rollout/{key}"),
        "timers" | "time_breakdown" | "sampler_perf" | "warmup_time" | "agent_timesteps_total" => {
            format!("time/{key}")
        }
        "iterations_since_restore" => format!("time/{key}"),
        _ if top.starts_with("time_") || top.starts_with("timesteps_") => format!("time/{key}"),
        _ if top.starts_with("num_") && (top.ends_with("_workers") || top.ends_with("_restarts")) => {
            format!("time/{key}")
        }
        _ if top.starts_with("num_") && top.contains("_steps_") => format!("time/{key}"),
        _ => key.to_string(),
    };
    Some(tag)
}

/// For the keys below `info`: a learner's numbers, with the policy's name where it has one. The others are counters,
/// which stand at the top of the result too.
fn train(below: &str) -> Option<String> {
    match below.strip_prefix("learner/") {
        Some(learner) => {
            let learner = learner.strip_prefix("default_policy/").unwrap_or(learner);
            Some(format!("train/{}", learner.replacen("learner_stats/", "", 1)))
        }
        None if below.starts_with("num_env_steps") || below.starts_with("num_agent_steps") => None,
        None => Some(format!("train/{below}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_in_groups_and_no_number_stands_in_two() {
        for (key, shown) in [
            ("episode_reward_mean", Some("rollout/episode_reward_mean")),
            ("sampler_results/episode_reward_mean", None),
            ("custom_metrics/angle_mean", Some("rollout/custom_metrics/angle_mean")),
            ("info/learner/default_policy/learner_stats/kl", Some("train/kl")),
            ("info/learner/red/learner_stats/kl", Some("train/red/kl")),
            ("info/policy_lag", Some("train/policy_lag")),
            ("info/num_env_steps_sampled", None),
            ("counters/num_env_steps_sampled", None),
            ("num_env_steps_sampled", None),
            ("timesteps_total", Some("time/timesteps_total")),
            ("timers/learn_time_ms", Some("time/timers/learn_time_ms")),
            ("evaluation/episode_reward_mean", Some("eval/episode_reward_mean")),
            ("config/lr", None),
            // A trainable's own.
            ("loss", Some("loss")),
            ("test/accuracy", Some("test/accuracy")),
        ] {
            assert_eq!(tag(key).as_deref(), shown, "{key}");
        }
    }
}
