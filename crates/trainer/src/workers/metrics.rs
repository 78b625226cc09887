//! Counters, timers and statistics of sizes, for results.

use crate::base::{DEFAULT_POLICY, PolicyId};
use crate::experience::TrainBatch;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Counts since the start of a run, with the names that Ray gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Number of environment steps sampled.
    pub num_env_steps_sampled: u64,
    /// Number of environment steps in training batches; each batch counts once, even if several learning steps use it.
    pub num_env_steps_trained: u64,
    /// Number of rows sampled for all policies: one row per step of an agent.
    #[serde(default)]
    pub num_agent_steps_sampled: u64,
    /// Number of rows in training batches of all policies; each batch counts once, even if several learning steps use
    /// it.
    #[serde(default)]
    pub num_agent_steps_trained: u64,
    /// Number of updates of target networks, of all policies together.
    pub num_target_updates: u64,
    /// Value of `num_env_steps_sampled` at the last update of a target network.
    pub last_target_update_ts: u64,
    /// Number of times that weights were sent to the workers.
    pub num_weight_syncs: u64,
    /// Counts of each policy, by policy id.
    #[serde(default)]
    pub policies: BTreeMap<PolicyId, PolicyCounters>,
}

/// Counts of one policy since the start of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyCounters {
    /// Number of rows sampled for the policy.
    pub num_steps_sampled: u64,
    /// Number of rows in training batches of the policy; each batch counts once, even if several learning steps use it.
    pub num_steps_trained: u64,
    /// Value of `num_env_steps_sampled` at the last update of the policy's target network.
    pub last_target_update_ts: u64,
}

impl Counters {
    /// The counts of one policy; all 0 if it has no rows.
    pub fn of_policy(&self, id: &str) -> PolicyCounters {
        self.policies.get(id).copied().unwrap_or_default()
    }

    /// The counts of one policy, to change; all 0 at first.
    fn policy(&mut self, id: &str) -> &mut PolicyCounters {
        if !self.policies.contains_key(id) {
            self.policies.insert(id.to_owned(), PolicyCounters::default());
        }
        self.policies.get_mut(id).expect("just added")
    }

    /// Counts a sampled fragment.
    pub(crate) fn sampled(&mut self, batch: &TrainBatch) {
        self.num_env_steps_sampled += batch.env_steps;
        self.num_agent_steps_sampled += batch.rows() as u64;
        for (id, rows) in &batch.policies {
            self.policy(id).num_steps_sampled += rows.rows() as u64;
        }
    }

    /// Counts a training batch that was learned from.
    pub(crate) fn trained(&mut self, batch: &TrainBatch) {
        self.num_env_steps_trained += batch.env_steps;
        self.num_agent_steps_trained += batch.rows() as u64;
        for (id, rows) in &batch.policies {
            self.policy(id).num_steps_trained += rows.rows() as u64;
        }
    }

    /// Counts an update of a policy's target network.
    pub(crate) fn target_updated(&mut self, id: &str) {
        self.num_target_updates += 1;
        self.last_target_update_ts = self.num_env_steps_sampled;
        self.policy(id).last_target_update_ts = self.num_env_steps_sampled;
    }

    /// Fills in the counts of each policy if there are none: checkpoints of the first format had a single policy and
    /// counted its rows as environment steps.
    pub(crate) fn completed(mut self) -> Self {
        if self.policies.is_empty() {
            self.num_agent_steps_sampled = self.num_env_steps_sampled;
            self.num_agent_steps_trained = self.num_env_steps_trained;
            let last_target_update_ts = self.last_target_update_ts;
            let num_steps_sampled = self.num_env_steps_sampled;
            let num_steps_trained = self.num_env_steps_trained;
            let counts = PolicyCounters { num_steps_sampled, num_steps_trained, last_target_update_ts };
            self.policies.insert(DEFAULT_POLICY.to_owned(), counts);
        }
        self
    }
}

/// Timers by name. Each has the last ten durations, for moving means, and the total since
/// [`restart_totals`](Self::restart_totals).
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeMap<&'static str, Timer>);

/// The durations that were recorded under one name.
#[derive(Debug, Default)]
struct Timer {
    /// The last ten durations, each with its number of units of work.
    window: VecDeque<(Duration, u64)>,
    /// Total time since the last restart.
    total: Duration,
}

impl Timers {
    /// Records the time from `start` to now for the timer `name`, in which `units` units of work were done.
    pub(crate) fn add(&mut self, name: &'static str, start: Instant, units: u64) {
        let elapsed = start.elapsed();
        let Timer { window, total } = self.0.entry(name).or_default();
        if window.len() == 10 {
            window.pop_front();
        }
        window.push_back((elapsed, units));
        *total += elapsed;
    }

    /// Sets the totals of all timers to zero; the moving means stay.
    pub(crate) fn restart_totals(&mut self) {
        self.0.values_mut().for_each(|timer| timer.total = Duration::ZERO);
    }

    /// Total time of the timer `name` since [`restart_totals`](Self::restart_totals); zero if there is no such timer.
    pub(crate) fn total(&self, name: &str) -> Duration {
        self.0.get(name).map_or(Duration::ZERO, |timer| timer.total)
    }

    /// The moving means of all timers, as `<name>_time_ms` and `<name>_throughput` (units of work per second).
    pub(crate) fn report(&self) -> Map<String, Value> {
        let mut out = Map::new();
        for (name, Timer { window, .. }) in &self.0 {
            let seconds: f64 = window.iter().map(|(d, _)| d.as_secs_f64()).sum();
            let units: u64 = window.iter().map(|(_, u)| u).sum();
            out.insert(format!("{name}_time_ms"), json!(1e3 * seconds / window.len() as f64));
            if units > 0 && seconds > 0.0 {
                out.insert(format!("{name}_throughput"), json!(units as f64 / seconds));
            }
        }
        out
    }
}

/// The last fifty values of a size, such as a queue's length (Ray's WindowStat).
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// The last fifty sizes, the oldest first.
    window: VecDeque<usize>,
    /// Number of all sizes that were added.
    count: u64,
}

impl Sizes {
    /// Adds one size.
    pub(crate) fn add(&mut self, size: usize) {
        if self.window.len() == 50 {
            self.window.pop_front();
        }
        self.window.push_back(size);
        self.count += 1;
    }

    /// Number of all sizes, and of the last fifty the mean, the standard deviation, and the quantiles 0, 0.1, 0.5, 0.9
    /// and 1.
    pub(crate) fn report(&self) -> Value {
        let n = self.window.len().max(1) as f64;
        let mean = self.window.iter().sum::<usize>() as f64 / n;
        let variance = self.window.iter().map(|&size| (size as f64 - mean).powi(2)).sum::<f64>() / n;
        let mut sorted: Vec<usize> = self.window.iter().copied().collect();
        sorted.sort_unstable();
        let quantile = |q: f64| {
            let at = q * (sorted.len() - 1) as f64;
            let low = sorted[at.floor() as usize] as f64;
            let high = sorted[at.ceil() as usize] as f64;
            low + (high - low) * at.fract()
        };
        let quantiles: Vec<f64> =
            [0.0, 0.1, 0.5, 0.9, 1.0].into_iter().filter(|_| !sorted.is_empty()).map(quantile).collect();
        json!({
            "size_count": self.count, "size_mean": mean, "size_std": variance.sqrt(), "size_quantiles": quantiles,
        })
    }
}
