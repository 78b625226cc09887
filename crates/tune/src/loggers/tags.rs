//! Chooses the TensorBoard tag of each number in a result: tags are grouped, and each number appears once.

/// Keys whose numbers also appear in the result under another key.
const REPEATED: [&str; 4] = [
    // These repeat `timesteps_total`, `agent_timesteps_total` and `timesteps_this_iter`.
    "num_env_steps_sampled",
    "num_agent_steps_sampled",
    "num_env_steps_sampled_this_iter",
    "counters",
];

/// Returns the tag for a flattened key of a result; `None` if it is not plotted.
///
/// `rollout/` contains episodes, `train/` the learner's numbers, `eval/` evaluations, `time/` steps and seconds. Any
/// other key of a trainable is its own tag.
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

/// Returns the tag for a key below `info`: a learner's number, with the policy's name unless there is only the default
/// policy. Counters are not plotted, since they also appear at the top of the result.
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
            // Keys that only this trainable reports.
            ("loss", Some("loss")),
            ("test/accuracy", Some("test/accuracy")),
        ] {
            assert_eq!(tag(key).as_deref(), shown, "{key}");
        }
    }
}
