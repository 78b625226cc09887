//! The counters of a run, and the fields that they fill in every result.

use std::process;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::Driver;
use crate::base::{Error, Metrics, Result, node};
use crate::trainable::Trainable;

/// Counts of iterations, timesteps, episodes and seconds, in total and since the last restore.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) iteration: u64,
    pub(super) iterations_since_restore: u64,
    pub(super) timesteps_total: Option<u64>,
    pub(super) timesteps_since_restore: u64,
    pub(super) episodes_total: Option<u64>,
    pub(super) time_total_s: f64,
    pub(super) time_since_restore: f64,
}

impl<T: Trainable> Driver<T> {
    /// Returns the fields that every result has.
    ///
    /// These are `trial_id`, `experiment_id`, `date` (local time), `timestamp` (Unix seconds), `pid`, `hostname`,
    /// `node_ip` and `config`; `time_this_iter_s` if `time_this_iter` is given; and, unless `debug_metrics_only` is
    /// set, `time_total_s`, the `*_since_restore` counters and `warmup_time` (seconds).
    ///
    /// `now: None` stands for the present time.
    pub fn get_auto_filled_metrics(
        &self,
        now: Option<SystemTime>,
        time_this_iter: Option<f64>,
        debug_metrics_only: bool,
    ) -> Metrics {
        let now = node::local(now.unwrap_or_else(SystemTime::now));
        let mut filled = Metrics::new();
        let mut put = |key: &str, value: Value| filled.insert(key.to_string(), value);
        put("trial_id", json!(self.trial.trial_id));
        put("experiment_id", json!(self.experiment_id));
        put("date", json!(node::date(&now)));
        put("timestamp", json!(now.timestamp().as_second()));
        if let Some(seconds) = time_this_iter {
            put("time_this_iter_s", json!(seconds));
        }
        put("pid", json!(process::id()));
        put("hostname", json!(node::hostname()));
        put("node_ip", json!(node::node_ip()));
        put("config", self.config.clone().into());
        if !debug_metrics_only {
            put("time_total_s", json!(self.counters.time_total_s));
            put("time_since_restore", json!(self.counters.time_since_restore));
            put("timesteps_since_restore", json!(self.counters.timesteps_since_restore));
            put("iterations_since_restore", json!(self.counters.iterations_since_restore));
            put("warmup_time", json!(self.warmup.map(|warmup| warmup.as_secs_f64())));
        }
        filled
    }

    /// Adds the automatic fields to `result`; `done`, `timesteps_total`, `episodes_total` and `training_iteration` only
    /// where the trainable did not set them.
    pub(super) fn fill(&mut self, result: &mut Metrics, time_this_iter: f64) {
        default(result, "done", json!(false));
        default(result, "timesteps_total", json!(self.counters.timesteps_total));
        default(result, "episodes_total", json!(self.counters.episodes_total));
        default(result, "training_iteration", json!(self.counters.iteration));
        if let Some(loss) = result.get("mean_loss").and_then(Value::as_f64).filter(|loss| *loss != 0.0) {
            default(result, "neg_mean_loss", json!(-loss));
        }
        result.extend(self.get_auto_filled_metrics(None, Some(time_this_iter), false));
        if let Some(usage) = &mut self.usage {
            result.insert("perf".into(), usage.read());
        }
    }
}

impl Counters {
    /// Counts one more iteration.
    pub(super) fn advance(&mut self, time_this_iter: f64, timesteps: Option<u64>, episodes: Option<u64>) {
        self.iteration += 1;
        self.iterations_since_restore += 1;
        self.time_total_s += time_this_iter;
        self.time_since_restore += time_this_iter;
        if let Some(timesteps) = timesteps {
            *self.timesteps_total.get_or_insert(0) += timesteps;
            self.timesteps_since_restore += timesteps;
        }
        if let Some(episodes) = episodes {
            *self.episodes_total.get_or_insert(0) += episodes;
        }
    }
}

/// Sets `key` unless the result has it already.
fn default(result: &mut Metrics, key: &str, value: Value) {
    if !result.contains_key(key) {
        result.insert(key.to_string(), value);
    }
}

/// Returns the seconds under a reserved key of the result; `None` if the key is absent or null.
pub(super) fn seconds(result: &Metrics, key: &str) -> Result<Option<f64>> {
    reserved(result, key, "it must be a number of seconds, 0 or more", |value| {
        value.as_f64().filter(|seconds| *seconds >= 0.0)
    })
}

/// Returns the count under a reserved key of the result; `None` if the key is absent or null.
pub(super) fn count(result: &Metrics, key: &str) -> Result<Option<u64>> {
    reserved(result, key, "it must be a whole number, 0 or more", Value::as_u64)
}

/// Reads a reserved key of the result; fails with `rule` if the value has the wrong type.
fn reserved<V>(
    result: &Metrics,
    key: &str,
    rule: &str,
    read: impl FnOnce(&Value) -> Option<V>,
) -> Result<Option<V>> {
    match result.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Error::Metric { key: key.into(), value: value.to_string(), rule: rule.into() }),
        },
    }
}
