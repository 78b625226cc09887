//! When training stops: result keys and the values that end it.

use serde_json::Value;

use super::exit::usage;
use crate::tune::config::nearest;
use crate::tune::{Config, Metrics, loggers::flatten};

/// Parts of a result that fill up later in a run; keys below them are taken on trust until then.
const LATER: &[&str] = &["custom_metrics", "evaluation", "info/learner", "sampler_results/custom_metrics"];

/// Training stops when one of these result keys reaches its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stop(Vec<(String, f64)>);

/// A criterion that a result meets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Met {
    pub(super) key: String,
    pub(super) limit: f64,
    pub(super) value: f64,
}

impl Stop {
    /// Lays nested criteria over these: a number replaces the one of the same key, `null` removes it.
    pub(super) fn lay_over(&mut self, config: &Config) -> anyhow::Result<()> {
        for (key, value) in flatten(config) {
            let limit = value.as_f64();
            if limit.is_none() && !value.is_null() {
                return Err(usage(format!(
                    "the stop criterion `{key}` is {value}, but it must be a number, at which training stops, or \
                     null, which removes the criterion"
                )));
            }
            self.0.retain(|(known, _)| *known != key);
            self.0.extend(limit.map(|limit| (key, limit)));
        }
        Ok(())
    }

    pub(super) fn to_config(&self) -> Config {
        self.0.iter().map(|(key, limit)| (key.clone(), Value::from(*limit))).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The result keys, parts joined by `/`.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// The value at which this key stops training.
    pub(super) fn limit(&self, key: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, limit)| *limit)
    }

    /// Refuses a key that results do not have.
    pub(super) fn check(&self, result: &Metrics) -> anyhow::Result<()> {
        let known = flatten(result);
        let names = || known.iter().map(|(key, _)| key.as_str());
        let comes_later = |key: &str| {
            LATER.iter().any(|part| {
                let below = format!("{part}/");
                key.starts_with(&below) && !names().any(|name| name.starts_with(&below))
            })
        };
        for (key, _) in &self.0 {
            if names().any(|name| name == key) || comes_later(key) {
                continue;
            }
            let way_out = match nearest(key, names()) {
                Some(near) => format!("nearest: `{near}`"),
                None => {
                    "frequent ones: timesteps_total, training_iteration, episode_reward_mean, time_total_s"
                        .into()
                }
            };
            return Err(usage(format!("no result carries the stop criterion `{key}`; {way_out}")));
        }
        Ok(())
    }

    /// The first criterion that `result` meets.
    pub(super) fn met(&self, result: &Metrics) -> Option<Met> {
        let known = flatten(result);
        self.0.iter().find_map(|(key, limit)| {
            let (_, value) = known.iter().find(|(name, _)| name == key)?;
            let value = value.as_f64().filter(|value| value >= limit)?;
            Some(Met { key: key.clone(), limit: *limit, value })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Config {
        value.as_object().unwrap().clone()
    }

    fn stop(config: Value) -> Stop {
        let mut stop = Stop::default();
        stop.lay_over(&object(config)).unwrap();
        stop
    }

    #[test]
    fn a_later_number_replaces_a_criterion_and_null_removes_it() {
        let mut stop = stop(json!({"a": 1, "b": {"c": 2}, "d": 3}));
        stop.lay_over(&object(json!({"b/c": null, "a": 4}))).unwrap();
        assert_eq!(stop.to_config(), object(json!({"d": 3.0, "a": 4.0})));
    }

    #[test]
    fn a_criterion_is_met_from_its_value_on_and_never_by_null() {
        let stop = stop(json!({"episode_reward_mean": 475, "info": {"kl": 0.5}}));
        let met = |reward: Value, kl: f64| {
            stop.met(&object(json!({"episode_reward_mean": reward, "info": {"kl": kl}}))).map(|met| met.key)
        };
        assert_eq!(met(json!(475.0), 0.0).as_deref(), Some("episode_reward_mean"));
        assert_eq!(met(json!(474.9), 0.5).as_deref(), Some("info/kl"));
        assert_eq!(met(Value::Null, 0.0), None);
    }

    #[test]
    fn a_key_that_results_do_not_carry_is_refused_with_the_nearest_and_null_counts_as_carried() {
        let result = object(json!({"episode_reward_mean": null, "timesteps_total": 5, "custom_metrics": {}}));
        let check =
            |key: &str| Stop(vec![(key.into(), 1.0)]).check(&result).map_err(|error| error.to_string());
        assert_eq!(check("episode_reward_mean"), Ok(()));
        assert_eq!(
            check("timestep_total").unwrap_err(),
            "no result carries the stop criterion `timestep_total`; nearest: `timesteps_total`"
        );
        assert!(check("x").unwrap_err().contains("frequent ones"));
        assert_eq!(check("custom_metrics/goals_mean"), Ok(()));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let error = Stop::default().lay_over(&object(json!({"timesteps_total": "many"}))).unwrap_err();
        assert!(error.to_string().contains(r#"`timesteps_total` is "many""#), "{error}");
    }
}
