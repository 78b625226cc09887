//! The median stopping rule of Google Vizier.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Answer, Decision, Order, TrialScheduler, not_negative};
use crate::base::metric::{self, Comparison, number};
use crate::base::{Metrics, Objective, Result, Trial, TrialStatus};

/// Name of the scheduler in error messages.
const NAME: &str = "MedianStoppingRule";

/// Settings of [`MedianStoppingRule`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MedianStoppingConfig {
    /// Key of the results that measures progress, e.g. `time_total_s`; its value must grow with every result.
    pub time_attr: String,
    /// Objective by which trials are compared; `None` means the sweep's. Sweep files write it as `metric` and `mode`.
    #[serde(flatten, with = "metric::pair")]
    pub objective: Option<Objective>,
    /// Time before which no trial is stopped, in units of `time_attr`; earlier results do not count in any mean.
    pub grace_period: f64,
    /// Number of other trials that must have reached the same time for their median to be used.
    pub min_samples_required: usize,
    /// Time that a trial runs before it gives way to waiting trials, in units of `time_attr`. A trial gives way only
    /// while too few others have reached its time.
    pub min_time_slice: f64,
    /// Whether bad trials are stopped. Otherwise they are paused, and continue when nothing else runs.
    pub hard_stop: bool,
}

impl Default for MedianStoppingConfig {
    fn default() -> Self {
        Self {
            time_attr: "time_total_s".into(),
            objective: None,
            grace_period: 60.0,
            min_samples_required: 3,
            min_time_slice: 0.0,
            hard_stop: true,
        }
    }
}

/// Median stopping rule: a trial is stopped if its best result so far is worse than the median of the other trials'
/// running means.
///
/// This is the rule of [Golovin et al. 2017, Google Vizier](https://research.google.com/pubs/pub46180.html) in Ray
/// Tune's form. The other trials are all those that have reached the same time, including ended ones. The running mean
/// of a trial is taken over its results from `grace_period` to that time. As in Ray, the last result of a trial that
/// ended by itself, or was stopped by its scheduler, counts twice in the mean.
///
/// A result that lacks the metric or the time is ignored, and the trial continues. A `null` counts in no mean and is
/// never the best result (in Ray a NaN spoils both). A trial with only `null` results is worse than any median.
#[derive(Debug)]
pub struct MedianStoppingRule {
    config: MedianStoppingConfig,
    comparison: Comparison,
    /// Times and scores of each trial, by trial id and in order of arrival.
    results: HashMap<String, Vec<(f64, f64)>>,
    last_pause: HashMap<String, f64>,
    stopped: HashSet<String>,
}

impl MedianStoppingRule {
    /// Makes a scheduler that has seen no results yet.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) if `grace_period` or `min_time_slice` is negative, infinite or
    /// NaN.
    pub fn new(config: MedianStoppingConfig) -> Result<Self> {
        not_negative(NAME, "grace_period", config.grace_period)?;
        not_negative(NAME, "min_time_slice", config.min_time_slice)?;
        Ok(Self {
            comparison: Comparison::new(NAME, config.objective.clone()),
            results: HashMap::new(),
            last_pause: HashMap::new(),
            stopped: HashSet::new(),
            config,
        })
    }

    /// Stores a result that has a time and a metric, and returns its time; `None` if it lacks one of them.
    fn record(&mut self, trial: &Trial, result: &Metrics) -> Result<Option<f64>> {
        let time = number(result, &self.config.time_attr)?.filter(|time| !time.is_nan());
        let Some((time, score)) = time.zip(self.comparison.score(result)?) else { return Ok(None) };
        self.results.entry(trial.trial_id.clone()).or_default().push((time, score));
        Ok(Some(time))
    }

    /// Returns the mean result up to `time` of every other trial that has reached `time`.
    fn running_means(&self, trial: &Trial, time: f64) -> Vec<f64> {
        let others = self.results.iter().filter(|(trial_id, results)| {
            **trial_id != trial.trial_id && results.last().is_some_and(|(latest, _)| *latest >= time)
        });
        let counts = |at: f64, score: f64| self.config.grace_period <= at && at <= time && !score.is_nan();
        others
            .filter_map(|(_, results)| {
                let scores = results.iter().filter(|(at, score)| counts(*at, *score)).map(|(_, score)| score);
                let number = scores.clone().count();
                (number > 0).then(|| scores.sum::<f64>() / number as f64)
            })
            .collect()
    }

    /// Returns the best score of the trial so far.
    fn best(&self, trial: &Trial) -> f64 {
        let scores = self.results.get(&trial.trial_id).into_iter().flatten().map(|(_, score)| *score);
        scores.fold(f64::NEG_INFINITY, f64::max)
    }
}

impl TrialScheduler for MedianStoppingRule {
    fn set_search_properties(&mut self, objective: Option<&Objective>) -> Result<()> {
        self.comparison.set(objective)
    }

    fn objective(&self) -> Option<&Objective> {
        self.comparison.objective()
    }

    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Answer> {
        if self.stopped.contains(&trial.trial_id) {
            return Ok(Decision::Continue.into());
        }
        let Some(time) = self.record(trial, result)? else { return Ok(Decision::Continue.into()) };
        if time < self.config.grace_period {
            return Ok(Decision::Continue.into());
        }
        let means = self.running_means(trial, time);
        if means.len() < self.config.min_samples_required {
            let waits = |trial: &Trial| matches!(trial.status, TrialStatus::Pending | TrialStatus::Paused);
            let since = self.last_pause.get(&trial.trial_id).map_or(f64::INFINITY, |last| time - last);
            if since > self.config.min_time_slice && trials.iter().any(waits) {
                self.last_pause.insert(trial.trial_id.clone(), time);
                return Ok(Decision::Pause.into());
            }
            return Ok(Decision::Continue.into());
        }
        if self.best(trial) >= median(means) {
            return Ok(Decision::Continue.into());
        }
        self.stopped.insert(trial.trial_id.clone());
        Ok(if self.config.hard_stop { Decision::Stop } else { Decision::Pause }.into())
    }

    fn on_trial_complete(&mut self, trial: &Trial, result: &Metrics, _: &[Trial]) -> Result<Vec<Order>> {
        self.record(trial, result).map(|_| Vec::new())
    }

    fn debug_string(&self) -> String {
        format!("MedianStoppingRule: {} stopped", self.stopped.len())
    }
}

/// Returns the median of `values`, which must not be empty or contain NaN.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}
