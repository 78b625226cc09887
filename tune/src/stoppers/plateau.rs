//! Stoppers for a metric that does not move any more.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Stopper;
use crate::metric::{missing, number};
use crate::{Error, Metrics, Mode, Result};

/// Settings of [`TrialPlateauStopper`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrialPlateauConfig {
    /// The key of the results to watch; it must be given.
    pub metric: String,
    /// A standard deviation below this is a plateau.
    pub std: f64,
    /// How many of the last results the standard deviation is of.
    pub num_results: usize,
    /// How many results a trial has at least before it ends.
    pub grace_period: u64,
    /// No trial ends before the metric is as good as this; needs `mode`.
    pub metric_threshold: Option<f64>,
    /// Whether high or low values of the metric are good.
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

/// Ends a trial whose metric has not moved over its last results.
///
/// A result without the metric, or with `null`, is no plateau while it is among the last `num_results`.
#[derive(Clone, Debug)]
pub struct TrialPlateauStopper {
    config: TrialPlateauConfig,
    /// Trial → number of results, and the last of them.
    trials: HashMap<String, (u64, VecDeque<f64>)>,
}

impl TrialPlateauStopper {
    /// A stopper that has seen no results yet.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if no metric is named, if `std` or `num_results` is out of range, or if there is a
    /// `metric_threshold` without a `mode`.
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
    /// The key of the results to watch; it must be given.
    pub metric: String,
    /// A standard deviation up to this is a plateau.
    pub std: f64,
    /// How many of the best results of the sweep the standard deviation is of.
    pub top: usize,
    /// Whether high or low values of the metric are good.
    pub mode: Mode,
    /// How many results in a row the plateau must last before the sweep ends; 0 and 1 are the same.
    pub patience: u64,
}

impl Default for ExperimentPlateauConfig {
    fn default() -> Self {
        Self { metric: String::new(), std: 0.001, top: 10, mode: Mode::Min, patience: 0 }
    }
}

/// Ends the sweep when its best results do not get better any more.
///
/// The best results of all trials count, several of one trial too. A `null` is no result.
#[derive(Clone, Debug)]
pub struct ExperimentPlateauStopper {
    config: ExperimentPlateauConfig,
    /// The best first; higher is better.
    best: Vec<f64>,
    /// Results in a row at which there was a plateau.
    iterations: u64,
}

impl ExperimentPlateauStopper {
    /// A stopper that has seen no results yet.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if no metric is named, or if `std` or `top` is out of range.
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

/// The standard deviation of a population; NaN if one of the values is.
fn std(values: &[f64]) -> f64 {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / number).sqrt()
}
