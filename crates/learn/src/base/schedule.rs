//! Values that change with the number of environment steps sampled.

use crate::base::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// A value by step, given by points `[[step, value], ...]` as in Ray: linear between the points, constant before the
/// first and after the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Piecewise(pub Vec<(u64, f64)>);

impl Piecewise {
    /// A line from `initial` at step 0 to `last` at step `steps`.
    pub fn linear(initial: f64, last: f64, steps: u64) -> Self {
        Self(vec![(0, initial), (steps, last)])
    }

    /// The value at step `t`.
    pub fn value(&self, t: u64) -> f64 {
        let points = &self.0;
        let after = points.partition_point(|&(at, _)| at <= t);
        match (after.checked_sub(1).and_then(|i| points.get(i)), points.get(after)) {
            (Some(&(t0, v0)), Some(&(t1, v1))) => v0 + (v1 - v0) * (t - t0) as f64 / (t1 - t0) as f64,
            (Some(&(_, v)), None) | (None, Some(&(_, v))) => v,
            (None, None) => f64::NAN,
        }
    }

    /// Refuses a schedule that has no points, whose steps do not grow, or whose values are not finite.
    ///
    /// # Errors
    /// Returns [`Error::Config`], which names `key`, if the list is empty, its steps do not grow, or a value is not
    /// finite.
    pub fn validate(&self, key: &str) -> Result<()> {
        let ordered = self.0.windows(2).all(|w| w[0].0 < w[1].0);
        if self.0.is_empty() || !ordered || self.0.iter().any(|(_, v)| !v.is_finite()) {
            let value = serde_json::to_string(self).unwrap_or_default();
            let rule = "it must be a list of at least one [step, value], steps growing, values finite";
            return Err(Error::config(key, value, rule));
        }
        Ok(())
    }
}

/// A number that is constant, or changes with the number of environment steps sampled.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The number never changes.
    Constant(f64),
    /// The number follows straight lines between points.
    Piecewise(Piecewise),
}

impl Schedule {
    /// Makes a schedule from `schedule` if it is given, else from the constant.
    pub fn of(constant: f64, schedule: Option<&Piecewise>) -> Self {
        schedule.cloned().map_or(Self::Constant(constant), Self::Piecewise)
    }

    /// The schedule's value at step `t`.
    #[inline]
    pub fn at(&self, t: u64) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Piecewise(points) => points.value(t),
        }
    }
}

impl From<f64> for Schedule {
    fn from(constant: f64) -> Self {
        Self::Constant(constant)
    }
}

/// Ray's `PolynomialSchedule`, which is linear with `power` 1: `final_p + (initial_p - final_p) * (1 - t / T)^power`
/// until step `T = schedule_timesteps`, then `final_p`.
pub fn polynomial(t: u64, schedule_timesteps: u64, initial_p: f64, final_p: f64, power: f64) -> f64 {
    let t = t.min(schedule_timesteps) as f64;
    final_p + (initial_p - final_p) * libm::pow(1.0 - t / schedule_timesteps as f64, power)
}

/// Ray's `ExponentialSchedule`: `initial_p * decay_rate^(t / schedule_timesteps)`.
pub fn exponential(t: u64, schedule_timesteps: u64, initial_p: f64, decay_rate: f64) -> f64 {
    initial_p * libm::pow(decay_rate, t as f64 / schedule_timesteps as f64)
}
