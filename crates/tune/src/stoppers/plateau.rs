//! Stoppers that end a trial or the sweep when a metric has stopped changing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Stopper;
use crate::base::metric::{missing, number};
use crate::base::{Error, Metrics, Mode, Result};

/// Settings of [`TrialPlateauStopper`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrialPlateauConfig {
    /// Result key of the metric; required.
    pub metric: String,
    /// Standard deviation of the metric below which a trial has plateaued.
    pub std: f64,
    /// Number of most recent results over which the standard deviation is computed.
    pub num_results: usize,
    /// Minimum number of results before a trial can end.
    pub grace_period: u64,
    /// Value that the metric must reach before a trial can end; requires `mode`.
    pub metric_threshold: Option<f64>,
    /// Whether higher or lower values are better; only used with `metric_threshold`.
    pub mode: Option<Mode>,
}

impl Default for TrialPlateauConfig {
    fn default() -> Self {
        Self {
            metric: String::new(),
            std: 0.01,
            num_results: 4,
            grace_period: 4,
            metric_threshold: None,
            mode: None,
        }
    }
}

/// Ends a trial when the standard deviation of its metric over the last results is small.
///
/// There is no plateau while the metric is missing or `null` in one of the last `num_results` results.
#[derive(Clone, Debug)]
pub struct TrialPlateauStopper {
    config: TrialPlateauConfig,
    /// Number of results and the most recent values of the metric, by trial id.
    trials: HashMap<String, (u64, VecDeque<f64>)>,
}

impl TrialPlateauStopper {
    /// Creates a stopper that has seen no results yet.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `metric` is empty, or if `std` or `num_results` is out of range, and
    /// [`Error::Missing`] if `metric_threshold` is given without `mode`.
    pub fn new(config: TrialPlateauConfig) -> Result<Self> {
        let refuse = |key: &str, value: String, rule: &str| {
            Err(Error::config(format!("TrialPlateauStopper.{key}"), value, rule))
        };
        if config.metric.is_empty() {
            return refuse("metric", r#""""#.into(), "it must name a key of the results");
        }
        if config.std.is_nan() || config.std <= 0.0 {
            return refuse("std", config.std.to_string(), "it must be above 0");
        }
        if config.num_results == 0 {
            return refuse("num_results", "0".into(), "it must be 1 or more");
        }
        if config.metric_threshold.is_some() && config.mode.is_none() {
            let rule = "`metric_threshold` is given, so write min or max";
            return Err(Error::missing("TrialPlateauStopper.mode", rule));
        }
        Ok(Self { config, trials: HashMap::new() })
    }
}

impl Stopper for TrialPlateauStopper {
    fn should_stop(&mut self, trial_id: &str, result: &Metrics) -> Result<bool> {
        let value = number(result, &self.config.metric)?.unwrap_or(f64::NAN);
        let (results, last) = self.trials.entry(trial_id.to_string()).or_default();
        *results += 1;
        if last.len() == self.config.num_results {
            last.pop_front();
        }
        last.push_back(value);
        if *results < self.config.grace_period || last.len() < self.config.num_results {
            return Ok(false);
        }
        let reached = match (self.config.metric_threshold, self.config.mode) {
            (Some(threshold), Some(mode)) => mode.score(value) >= mode.score(threshold),
            _ => true,
        };
        Ok(reached && std(last.make_contiguous()) < self.config.std)
    }
}

/// Settings of [`ExperimentPlateauStopper`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExperimentPlateauConfig {
    /// Result key of the metric; required.
    pub metric: String,
    /// Standard deviation of the best results, at or below which the sweep has plateaued.
    pub std: f64,
    /// Number of best results over which the standard deviation is computed, 2 or more.
    pub top: usize,
    /// Whether higher or lower values of the metric are better.
    pub mode: Mode,
    /// Number of consecutive results with a plateau before the sweep ends; 0 and 1 are equivalent.
    pub patience: u64,
}

impl Default for ExperimentPlateauConfig {
    fn default() -> Self {
        Self { metric: String::new(), std: 0.001, top: 10, mode: Mode::Min, patience: 0 }
    }
}

/// Ends the sweep when the standard deviation of its best results is small.
///
/// The best results are taken from all trials, and one trial may contribute several. `null` values are ignored.
#[derive(Clone, Debug)]
pub struct ExperimentPlateauStopper {
    config: ExperimentPlateauConfig,
    /// Scores of the best results, best first; higher is better.
    best: Vec<f64>,
    /// Number of consecutive results with a plateau.
    iterations: u64,
}

impl ExperimentPlateauStopper {
    /// Creates a stopper that has seen no results yet.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `metric` is empty, or if `std` or `top` is out of range.
    pub fn new(config: ExperimentPlateauConfig) -> Result<Self> {
        let refuse = |key: &str, value: String, rule: &str| {
            Err(Error::config(format!("ExperimentPlateauStopper.{key}"), value, rule))
        };
        if config.metric.is_empty() {
            return refuse("metric", r#""""#.into(), "it must name a key of the results");
        }
        if config.std.is_nan() || config.std <= 0.0 {
            return refuse("std", config.std.to_string(), "it must be above 0");
        }
        if config.top < 2 {
            return refuse("top", config.top.to_string(), "it must be 2 or more");
        }
        Ok(Self { config, best: Vec::new(), iterations: 0 })
    }

    fn has_plateaued(&self) -> bool {
        self.best.len() == self.config.top && std(&self.best) <= self.config.std
    }
}

impl Stopper for ExperimentPlateauStopper {
    fn should_stop(&mut self, trial_id: &str, result: &Metrics) -> Result<bool> {
        let metric = &self.config.metric;
        let value = number(result, metric)?
            .ok_or_else(|| missing(result, metric, trial_id, "the metric of ExperimentPlateauStopper"))?;
        if !value.is_nan() {
            let score = self.config.mode.score(value);
            let place = self.best.partition_point(|other| *other >= score);
            self.best.insert(place, score);
            self.best.truncate(self.config.top);
        }
        self.iterations = if self.has_plateaued() { self.iterations + 1 } else { 0 };
        Ok(self.stop_all(Duration::ZERO))
    }

    fn stop_all(&self, _: Duration) -> bool {
        self.has_plateaued() && self.iterations >= self.config.patience
    }
}

/// Returns the population standard deviation of `values`; NaN if a value is NaN.
fn std(values: &[f64]) -> f64 {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / number).sqrt()
}
