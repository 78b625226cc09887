//! The most recent episodes of a run, and the statistics of them in its results.

use crate::base::Episode;
use pavlov_tune::Metrics;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

/// The most recent episodes, over which results are averaged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EpisodeWindow {
    episodes: VecDeque<Episode>,
}

impl EpisodeWindow {
    /// Adds new episodes and keeps the last `window` episodes, or all new ones if they are more.
    pub(crate) fn add(&mut self, new: Vec<Episode>, window: usize) {
        let keep = window.max(new.len());
        self.episodes.extend(new);
        while self.episodes.len() > keep {
            self.episodes.pop_front();
        }
    }

    /// Whether no episode has ended yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.episodes.is_empty()
    }

    /// The statistics of the most recent episodes; `per_episode` is that of [`summarize`].
    pub(crate) fn summarize(&self, per_episode: bool) -> Metrics {
        summarize(self.episodes.iter(), per_episode)
    }
}

/// The statistics of these episodes: `episode_reward_mean` and similar keys. A mean over no episodes is null. With
/// `per_episode`, custom metrics are lists of all values instead of mean, minimum and maximum.
pub(crate) fn summarize<'a>(
    episodes: impl Iterator<Item = &'a Episode> + Clone,
    per_episode: bool,
) -> Metrics {
    let rewards: Vec<f64> = episodes.clone().map(|e| e.total_reward).collect();
    let lengths: Vec<u64> = episodes.clone().map(|e| e.length).collect();
    let mean = |xs: &[f64]| (!xs.is_empty()).then(|| xs.iter().sum::<f64>() / xs.len() as f64);
    let mut custom: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut hist: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut by_policy: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for episode in episodes {
        for agent in &episode.agent_rewards {
            by_policy.entry(&agent.policy).or_default().push(agent.reward);
        }
        for (name, value) in &episode.custom_metrics {
            if !value.is_nan() {
                custom.entry(name).or_default().push(*value);
            }
        }
        for (name, values) in &episode.hist_data {
            hist.entry(name).or_default().extend(values);
        }
    }
    let mut custom_metrics = Map::new();
    for (name, values) in custom {
        if per_episode {
            custom_metrics.insert(name.to_owned(), json!(values));
        } else {
            custom_metrics.insert(format!("{name}_mean"), json!(mean(&values)));
            custom_metrics.insert(format!("{name}_min"), json!(values.iter().copied().reduce(f64::min)));
            custom_metrics.insert(format!("{name}_max"), json!(values.iter().copied().reduce(f64::max)));
        }
    }
    let mut hist_stats = Map::new();
    hist_stats.insert("episode_reward".into(), json!(rewards));
    hist_stats.insert("episode_lengths".into(), json!(lengths));
    for (name, values) in hist {
        hist_stats.insert(name.to_owned(), json!(values));
    }
    for (id, rewards) in &by_policy {
        hist_stats.insert(format!("policy_{id}_reward"), json!(rewards));
    }
    let policy_rewards = |f: &dyn Fn(&[f64]) -> Option<f64>| -> Map<String, Value> {
        by_policy.iter().map(|(id, rewards)| ((*id).to_owned(), json!(f(rewards)))).collect()
    };
    let mut out = Metrics::new();
    out.insert("episode_reward_max".into(), json!(rewards.iter().copied().reduce(f64::max)));
    out.insert("episode_reward_min".into(), json!(rewards.iter().copied().reduce(f64::min)));
    out.insert("episode_reward_mean".into(), json!(mean(&rewards)));
    let lengths: Vec<f64> = lengths.into_iter().map(|l| l as f64).collect();
    out.insert("episode_len_mean".into(), json!(mean(&lengths)));
    for (key, of) in [
        ("policy_reward_min", policy_rewards(&|rewards| rewards.iter().copied().reduce(f64::min))),
        ("policy_reward_max", policy_rewards(&|rewards| rewards.iter().copied().reduce(f64::max))),
        ("policy_reward_mean", policy_rewards(&|rewards| mean(rewards))),
    ] {
        out.insert(key.into(), Value::Object(of));
    }
    out.insert("custom_metrics".into(), Value::Object(custom_metrics));
    out.insert("hist_stats".into(), Value::Object(hist_stats));
    out
}
