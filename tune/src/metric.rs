//! Numbers of a result by key, and what a sweep optimises.

use serde_json::Value;

use crate::config::nearest;
use crate::loggers::flatten;
use crate::{Error, Metrics, Mode, Result};

/// The metric of a trainable that reports bare numbers.
pub(crate) const DEFAULT_METRIC: &str = "_metric";

/// The value at a key whose parts are joined by `/`; a key of the result that has a slash itself comes first.
pub(crate) fn find<'a>(result: &'a Metrics, key: &str) -> Option<&'a Value> {
    result.get(key).or_else(|| {
        key.match_indices('/').find_map(|(at, _)| find(result.get(&key[..at])?.as_object()?, &key[at + 1..]))
    })
}

/// The number at a key. `None`: there is no such key. NaN: the number does not exist yet (`null`).
///
/// # Errors
/// Returns [`Error::Metric`] if the value is something else.
pub(crate) fn number(result: &Metrics, key: &str) -> Result<Option<f64>> {
    match find(result, key) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(f64::NAN)),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(Error::Metric {
                key: key.into(),
                value: value.to_string(),
                rule: "a scheduler or stopper compares it: it must be a number or null".into(),
            }),
        },
    }
}

/// [`Error::MissingMetric`].
pub(crate) fn missing(result: &Metrics, key: &str, trial_id: &str, needed_as: impl Into<String>) -> Error {
    let known: Vec<String> = flatten(result).into_iter().map(|(key, _)| key).collect();
    let nearest = nearest(key, known.iter().map(String::as_str)).map(String::from);
    Error::MissingMetric {
        key: key.into(),
        trial_id: trial_id.into(),
        needed_as: needed_as.into(),
        nearest,
        known,
    }
}

/// The metric and mode of a scheduler: its own, else those of the sweep.
#[derive(Clone, Debug)]
pub(crate) struct Objective {
    /// For messages.
    scheduler: &'static str,
    metric: Option<String>,
    mode: Option<Mode>,
}

impl Objective {
    pub(crate) fn new(scheduler: &'static str, metric: Option<String>, mode: Option<Mode>) -> Self {
        Self { scheduler, metric, mode }
    }

    /// Takes over what the sweep has.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if one of them is given twice, or nowhere. A mode without metric is for the bare
    /// numbers of [`DEFAULT_METRIC`].
    pub(crate) fn set(&mut self, metric: Option<&str>, mode: Option<Mode>) -> Result<()> {
        if let (Some(own), Some(_)) = (&self.metric, metric) {
            return Err(self.refuse("metric", own, "the sweep has a metric too: give it in one place"));
        }
        if let (Some(own), Some(_)) = (self.mode, mode) {
            return Err(self.refuse("mode", own.name(), "the sweep has a mode too: give it in one place"));
        }
        self.metric = metric.map(String::from).or(self.metric.take());
        self.mode = mode.or(self.mode);
        if self.metric.is_none() && self.mode.is_some() {
            self.metric = Some(DEFAULT_METRIC.into());
        }
        self.get().map(drop)
    }

    /// # Errors
    /// Returns [`Error::Config`] if neither the sweep nor the scheduler has a metric, or a mode.
    pub(crate) fn get(&self) -> Result<(&str, Mode)> {
        let rule = "it compares trials: give it one, or give one to the sweep";
        let metric = self.metric.as_deref().ok_or_else(|| self.refuse("metric", "missing", rule))?;
        let mode = self.mode.ok_or_else(|| self.refuse("mode", "missing", rule))?;
        Ok((metric, mode))
    }

    /// The value in `result` such that higher is better; `None` where there is no such key.
    ///
    /// # Errors
    /// Returns [`Error::Metric`] if the value is no number, and [`Error::Config`] if there is no metric or mode.
    pub(crate) fn score(&self, result: &Metrics) -> Result<Option<f64>> {
        let (metric, mode) = self.get()?;
        Ok(number(result, metric)?.map(|value| mode.score(value)))
    }

    pub(crate) fn missing(&self, result: &Metrics, trial_id: &str) -> Error {
        let metric = self.metric.as_deref().unwrap_or(DEFAULT_METRIC);
        missing(result, metric, trial_id, format!("the metric of {}", self.scheduler))
    }

    fn refuse(&self, what: &str, value: &str, rule: &str) -> Error {
        Error::config(format!("{}.{what}", self.scheduler), value, rule)
    }
}
