//! Stopping criteria: limits of result keys, such as `{"training_iteration": 40, "evaluation/episode_reward_mean": 475}`.

use serde_json::{Map, Value};

use super::Stopper;
use crate::base::metric::{find, missing, number};
use crate::base::{Config, Error, Metrics, Result, flatten};

/// Ends a trial when any of its metrics reaches its limit: `>=`.
///
/// A key that the first result of the first trial does not have is an error that names the nearest key, since the trial
/// would otherwise never stop. A value of `null` counts as present.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoppingCriteria {
    criteria: Vec<Criterion>,
    later: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Criterion {
    key: String,
    limit: f64,
    /// Whether a result has had this key.
    seen: bool,
}

/// Criterion that a result has met.
#[derive(Clone, Debug, PartialEq)]
pub struct Met {
    /// Result key, with parts joined by `/`.
    pub key: String,
    /// Limit to reach.
    pub limit: f64,
    /// Value in the result, at least `limit`.
    pub value: f64,
}

impl StoppingCriteria {
    /// Creates criteria from limits by key. Keys may be nested, or have parts joined by `/`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a value is neither a number nor `null`, or if an object is empty.
    pub fn new(config: &Config) -> Result<Self> {
        let mut criteria = Self::default();
        criteria.lay_over(config)?;
        Ok(criteria)
    }

    /// Merges `config` into these criteria: a number replaces the limit of the same key, `null` removes the criterion.
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

    /// Names parts of the results that are empty at first, such as `evaluation`. A key below such a part may be missing as
    /// long as the part is absent or empty.
    #[must_use]
    pub fn later<T: Into<String>>(mut self, parts: impl IntoIterator<Item = T>) -> Self {
        self.later.extend(parts.into_iter().map(Into::into));
        self
    }

    /// Returns the limits by key, with parts joined by `/`.
    pub fn to_config(&self) -> Config {
        self.criteria.iter().map(|criterion| (criterion.key.clone(), Value::from(criterion.limit))).collect()
    }

    /// Whether there are no criteria, so that no trial is ever stopped.
    pub fn is_empty(&self) -> bool {
        self.criteria.is_empty()
    }

    /// Returns the result keys, with parts joined by `/`.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.criteria.iter().map(|criterion| criterion.key.as_str())
    }

    /// Returns the limit of `key`, or `None` if there is no such criterion.
    pub fn limit(&self, key: &str) -> Option<f64> {
        self.criteria.iter().find(|criterion| criterion.key == key).map(|criterion| criterion.limit)
    }

    /// Checks that each criterion's key is in this result or was in an earlier one.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`] with the nearest key if a key is in neither this result nor an earlier one.
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

    /// Returns the first criterion that `result` meets, or `None`.
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

/// Returns the key of the first empty object in `config`, if any.
fn empty_object(config: &Map<String, Value>) -> Option<String> {
    config.iter().find_map(|(key, value)| match value {
        Value::Object(inner) if inner.is_empty() => Some(key.clone()),
        Value::Object(inner) => empty_object(inner).map(|below| format!("{key}/{below}")),
        _ => None,
    })
}

impl<K: Into<String>> FromIterator<(K, f64)> for StoppingCriteria {
    /// Creates criteria from pairs of key and limit: `StoppingCriteria::from_iter([("training_iteration", 40.0)])`. Parts of
    /// a key are joined by `/`.
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
