//! Result keys and the values that end a trial: `{"training_iteration": 40, "evaluation/episode_reward_mean": 475}`.

use serde_json::Value;

use super::Stopper;
use crate::loggers::flatten;
use crate::metric::{find, missing, number};
use crate::{Config, Error, Metrics, Result};

/// Ends a trial when any of its result keys has reached its value: is as high, or higher.
///
/// A key that a trial's results do not carry would be waited for in silence. It is an error, with the nearest key
/// there is, at the first result of the first trial. `null` counts as carried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoppingCriteria {
    criteria: Vec<Criterion>,
    later: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Criterion {
    key: String,
    limit: f64,
    /// Whether a result has carried it.
    seen: bool,
}

/// A criterion that a result meets.
#[derive(Clone, Debug, PartialEq)]
pub struct Met {
    /// The result key, parts joined by `/`.
    pub key: String,
    /// The value to reach.
    pub limit: f64,
    /// The value reached.
    pub value: f64,
}

impl StoppingCriteria {
    /// Numbers by key, nested or with parts joined by `/`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a value is neither a number nor `null`, or if an object is empty.
    pub fn new(config: &Config) -> Result<Self> {
        let mut criteria = Self::default();
        criteria.lay_over(config)?;
        Ok(criteria)
    }

    /// Lays criteria over these: a number replaces the one of the same key, `null` removes it.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a value is neither a number nor `null`, or if an object is empty.
    pub fn lay_over(&mut self, config: &Config) -> Result<()> {
        if let Some(key) = empty_object(config) {
            let rule = "nothing in it says when training stops: write a number, or null, which removes the criterion";
            return Err(Error::config(format!("stop.{key}"), "{}", rule));
        }
        for (key, value) in flatten(config) {
            let limit = value.as_f64();
            if limit.is_none() && !value.is_null() {
                let rule =
                    "it must be a number, at which training stops, or null, which removes the criterion";
                return Err(Error::config(format!("stop.{key}"), value, rule));
            }
            self.criteria.retain(|known| known.key != key);
            self.criteria.extend(limit.map(|limit| Criterion { key, limit, seen: false }));
        }
        Ok(())
    }

    /// Parts of the results that fill up later in a trial, such as `evaluation`: keys below them are waited for.
    #[must_use]
    pub fn later<T: Into<String>>(mut self, parts: impl IntoIterator<Item = T>) -> Self {
        self.later.extend(parts.into_iter().map(Into::into));
        self
    }

    /// Numbers by key, as they were given.
    pub fn to_config(&self) -> Config {
        self.criteria.iter().map(|criterion| (criterion.key.clone(), Value::from(criterion.limit))).collect()
    }

    /// Whether nothing ever stops.
    pub fn is_empty(&self) -> bool {
        self.criteria.is_empty()
    }

    /// The result keys, parts joined by `/`.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.criteria.iter().map(|criterion| criterion.key.as_str())
    }

    /// The value at which this key stops training.
    pub fn limit(&self, key: &str) -> Option<f64> {
        self.criteria.iter().find(|criterion| criterion.key == key).map(|criterion| criterion.limit)
    }

    /// Refuses a key that this result does not carry and no earlier one did.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`] with the nearest key if neither this result nor an earlier one has a key.
    pub fn check(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        for criterion in self.criteria.iter_mut().filter(|criterion| !criterion.seen) {
            let key = &criterion.key;
            criterion.seen = find(result, key).is_some();
            let is_empty = |part: &str| {
                find(result, part).and_then(Value::as_object).is_none_or(|part| flatten(part).is_empty())
            };
            let comes_later = self.later.iter().any(|part| {
                key.strip_prefix(part.as_str()).is_some_and(|rest| rest.starts_with('/')) && is_empty(part)
            });
            if !criterion.seen && !comes_later {
                return Err(missing(result, key, trial_id, "the stop criterion"));
            }
        }
        Ok(())
    }

    /// The first criterion that `result` meets.
    ///
    /// # Errors
    /// Returns [`Error::Metric`] if a value is neither a number nor `null`.
    pub fn met(&self, result: &Metrics) -> Result<Option<Met>> {
        for Criterion { key, limit, .. } in &self.criteria {
            if let Some(value) = number(result, key)?.filter(|value| value >= limit) {
                return Ok(Some(Met { key: key.clone(), limit: *limit, value }));
            }
        }
        Ok(None)
    }
}

/// The key of an object with nothing in it.
fn empty_object(config: &Config) -> Option<String> {
    config.iter().find_map(|(key, value)| match value {
        Value::Object(inner) if inner.is_empty() => Some(key.clone()),
        Value::Object(inner) => empty_object(inner).map(|below| format!("{key}/{below}")),
        _ => None,
    })
}

impl<K: Into<String>> FromIterator<(K, f64)> for StoppingCriteria {
    /// Values by key, parts joined by `/`: `StoppingCriteria::from_iter([("training_iteration", 40.0)])`.
    fn from_iter<T: IntoIterator<Item = (K, f64)>>(values: T) -> Self {
        let criterion = |(key, limit): (K, f64)| Criterion { key: key.into(), limit, seen: false };
        Self { criteria: values.into_iter().map(criterion).collect(), later: Vec::new() }
    }
}

impl Stopper for StoppingCriteria {
    fn should_stop(&mut self, trial_id: &str, result: &Metrics) -> Result<bool> {
        self.check(trial_id, result)?;
        Ok(self.met(result)?.is_some())
    }
}
