//! Looks up metrics in a result, and defines the objective of a scheduler.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::base::config::{self, nearest};
use crate::base::{Error, Metrics, Mode, NO_TRIAL, Result, flatten};

/// Name of the metric of a trainable that reports bare numbers instead of objects.
pub(crate) const DEFAULT_METRIC: &str = "_metric";

/// Returns the value at a key whose parts are joined by `/`. A literal key of the result that contains a slash has
/// precedence.
pub(crate) fn find<'a>(result: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    result.get(key).or_else(|| {
        key.match_indices('/').find_map(|(at, _)| find(result.get(&key[..at])?.as_object()?, &key[at + 1..]))
    })
}

/// Returns the number at a key: `None` if there is no such key, NaN if the value is `null`, i.e. does not exist yet.
///
/// # Errors
/// Returns [`Error::Metric`] if the value is neither a number nor `null`.
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

impl Metrics {
    /// Returns the number at `key`, whose parts are joined by `/`: NaN if it is `null`, that is, if it does not exist yet.
    ///
    /// ```
    /// use pavlov_tune::Metrics;
    /// use serde_json::json;
    ///
    /// let mut result = Metrics::from([("loss", 0.5)]);
    /// result.insert("evaluation".into(), json!({"episode_reward_mean": null}));
    /// assert_eq!(result.f64("loss")?, 0.5);
    /// assert!(result.f64("evaluation/episode_reward_mean")?.is_nan());
    /// assert!(result.f64("los").unwrap_err().to_string().contains("loss"));
    /// # Ok::<(), pavlov_tune::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`], which names the most similar key, if there is none of that name, and
    /// [`Error::Metric`] if its value is no number.
    pub fn f64(&self, key: &str) -> Result<f64> {
        match find(self, key) {
            None => Err(missing(self, key, NO_TRIAL, "which the program reads")),
            Some(Value::Null) => Ok(f64::NAN),
            Some(value) => value.as_f64().ok_or_else(|| Error::Metric {
                key: key.into(),
                value: value.to_string(),
                rule: "it is to be read as a number".into(),
            }),
        }
    }
}

/// Makes an [`Error::MissingMetric`] with the keys of `result` and the most similar one.
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

/// Objective of a sweep: a key of the results, and whether high or low values of it are better.
///
/// In a sweep file, the objective is two settings, e.g. `metric = "loss"` and `mode = "min"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// Key of the results. The parts of a nested key are joined by `/`, e.g. `evaluation/episode_reward_mean`.
    pub metric: String,
    /// Whether lower or higher values of the metric are better.
    pub mode: Mode,
}

impl Objective {
    /// Makes an objective for which high values of `metric` are better.
    pub fn maximize(metric: impl Into<String>) -> Self {
        Objective { metric: metric.into(), mode: Mode::Max }
    }

    /// Makes an objective for which low values of `metric` are better.
    pub fn minimize(metric: impl Into<String>) -> Self {
        Objective { metric: metric.into(), mode: Mode::Min }
    }

    /// Makes an objective from a metric and a mode that are separate settings. With a mode alone, the metric is the number
    /// that a function reports without a name ([`DEFAULT_METRIC`]).
    ///
    /// # Errors
    /// Returns the rule, as a text, if there is a metric without a mode.
    pub(crate) fn of_pair(
        metric: Option<String>,
        mode: Option<Mode>,
    ) -> std::result::Result<Option<Self>, &'static str> {
        match (metric, mode) {
            (None, None) => Ok(None),
            (metric, Some(mode)) => {
                Ok(Some(Objective { metric: metric.unwrap_or_else(|| DEFAULT_METRIC.into()), mode }))
            }
            (Some(_), None) => {
                Err("it needs a `mode` beside it: max if high values of it are better, min if low ones are")
            }
        }
    }

    /// Returns the metric in `result`, negated if lower is better; `None` if the metric is missing or not a finite number.
    pub(crate) fn finite_score(&self, result: &Metrics) -> Option<f64> {
        let value = find(result, &self.metric)?.as_f64().filter(|value| value.is_finite())?;
        Some(self.mode.score(value))
    }
}

/// Returns the index of the highest score, the first one if several are equal; `None` if no candidate has a score.
pub(crate) fn best(scores: impl IntoIterator<Item = Option<f64>>) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (index, score) in scores.into_iter().enumerate() {
        if let Some(score) = score
            && best.is_none_or(|(best, _)| score > best)
        {
            best = Some((score, index));
        }
    }
    best.map(|(_, index)| index)
}

/// Serializes an optional objective as the settings `metric` and `mode`, for `#[serde(flatten, with = "metric::pair")]`.
pub(crate) mod pair {
    use super::*;

    #[derive(Serialize)]
    struct Pair<'a> {
        metric: Option<&'a str>,
        mode: Option<Mode>,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Read {
        metric: Value,
        mode: Value,
    }

    pub(crate) fn serialize<S: Serializer>(
        objective: &Option<Objective>,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        let objective = objective.as_ref();
        let metric = objective.map(|objective| &*objective.metric);
        Pair { metric, mode: objective.map(|objective| objective.mode) }.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Option<Objective>, D::Error> {
        let Read { metric, mode } = Read::deserialize(deserializer)?;
        let refuse = |key: &str, rule: &str| de::Error::custom(config::at(key, rule));
        let mode = serde_json::from_value(mode).map_err(|_| refuse("mode", "it must be `min` or `max`"))?;
        let metric = serde_json::from_value(metric)
            .map_err(|_| refuse("metric", "it must be a key of the results"))?;
        Objective::of_pair(metric, mode).map_err(|rule| refuse("metric", rule))
    }
}

/// Objective by which a scheduler or searcher compares trials: its own, or else that of the sweep.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// Name of the scheduler or searcher, for error messages.
    owner: &'static str,
    objective: Option<Objective>,
}

impl Comparison {
    pub(crate) fn new(owner: &'static str, objective: Option<Objective>) -> Self {
        Self { owner, objective }
    }

    /// Adopts the objective of the sweep if the scheduler or searcher has none of its own.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if both the sweep and the owner have an objective, and [`Error::Missing`] if neither has.
    pub(crate) fn set(&mut self, sweep: Option<&Objective>) -> Result<()> {
        if let (Some(own), Some(_)) = (&self.objective, sweep) {
            let rule = "the sweep has a metric too: give it in one place";
            return Err(Error::config(format!("{}.metric", self.owner), &own.metric, rule));
        }
        self.objective = self.objective.take().or_else(|| sweep.cloned());
        self.get().map(drop)
    }

    /// Returns the metric and the mode.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if neither the sweep nor the owner has an objective.
    pub(crate) fn get(&self) -> Result<&Objective> {
        let rule =
            "it compares trials, so give it or the sweep a metric and whether that is maximized or minimized";
        self.objective().ok_or_else(|| Error::missing(format!("{}.metric", self.owner), rule))
    }

    pub(crate) fn objective(&self) -> Option<&Objective> {
        self.objective.as_ref()
    }

    /// Returns the value of the metric in `result`, negated if the mode is `min`, so that higher is better; `None` if
    /// the result lacks the metric.
    ///
    /// # Errors
    /// Returns [`Error::Metric`] if the value is no number, and [`Error::Missing`] if there is no objective.
    pub(crate) fn score(&self, result: &Metrics) -> Result<Option<f64>> {
        let Objective { metric, mode } = self.get()?;
        Ok(number(result, metric)?.map(|value| mode.score(value)))
    }

    /// Makes the error for a result that lacks the metric.
    pub(crate) fn missing(&self, result: &Metrics, trial_id: &str) -> Error {
        let metric = self.objective().map_or(DEFAULT_METRIC, |objective| &objective.metric);
        missing(result, metric, trial_id, format!("the metric of {}", self.owner))
    }
}
