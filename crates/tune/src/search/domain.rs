//! Domains of a search space and their JSON form: an object with one key, such as `{"loguniform": [1e-4, 1e-1]}`.
//!
//! The functions have the names and arguments of Ray Tune. They do not check their bounds. A searcher checks them when it
//! gets the search space, because only then is the name of the setting known for the error message.

use serde_json::{Value, json};

use super::quantile::{normal_quantile, round_to};

/// Distribution from which one setting is drawn, or the list of values that it takes.
///
/// A domain serialises to its JSON form, so it can stand in `json!` in place of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Uniform distribution over `[low, high)`. With `q`: rounded to multiples of `q`, `high` included.
    Uniform {
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
        /// Step: values are rounded to multiples of `q`.
        q: Option<f64>,
    },
    /// Log-uniform distribution over `[low, high)`. With `q`: rounded to multiples of `q`, `high` included.
    LogUniform {
        /// Lower bound, above 0.
        low: f64,
        /// Upper bound.
        high: f64,
        /// Step: values are rounded to multiples of `q`.
        q: Option<f64>,
    },
    /// Normal distribution.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
        /// Step: values are rounded to multiples of `q`.
        q: Option<f64>,
    },
    /// Uniform distribution over the integers in `[low, high)`. With `q`: over the multiples of `q` in `[low, high]`.
    Integer {
        /// Lower bound.
        low: i64,
        /// Upper bound.
        high: i64,
        /// Step: values are multiples of `q`.
        q: Option<i64>,
    },
    /// Log-uniform distribution over the integers in `[low, high)`: a log-uniform draw, rounded down. With `q`: over the
    /// multiples of `q` in `[low, high]`.
    LogInteger {
        /// Lower bound, 1 or more.
        low: i64,
        /// Upper bound.
        high: i64,
        /// Step: values are multiples of `q`.
        q: Option<i64>,
    },
    /// One option, all equally likely. Objects and lists among the options may contain domains, which are drawn if their
    /// option is chosen.
    Choice(Vec<Value>),
    /// Grid search: one trial for each option. Objects and lists among the options may contain domains.
    GridSearch(Vec<Value>),
}

/// Uniform distribution over `[low, high)`.
pub fn uniform(low: f64, high: f64) -> Domain {
    Domain::Uniform { low, high, q: None }
}

/// Uniform distribution over `[low, high]`, rounded to multiples of `q`. Rounding makes the two bounds half as likely as the
/// other values.
pub fn quniform(low: f64, high: f64, q: f64) -> Domain {
    Domain::Uniform { low, high, q: Some(q) }
}

/// Log-uniform distribution over `[low, high)`. The base of the logarithm makes no difference.
pub fn loguniform(low: f64, high: f64) -> Domain {
    Domain::LogUniform { low, high, q: None }
}

/// Log-uniform distribution over `[low, high]`, rounded to multiples of `q`.
pub fn qloguniform(low: f64, high: f64, q: f64) -> Domain {
    Domain::LogUniform { low, high, q: Some(q) }
}

/// Normal distribution with the given mean and standard deviation.
pub fn randn(mean: f64, sd: f64) -> Domain {
    Domain::Normal { mean, sd, q: None }
}

/// Normal distribution with the given mean and standard deviation, rounded to multiples of `q`.
pub fn qrandn(mean: f64, sd: f64, q: f64) -> Domain {
    Domain::Normal { mean, sd, q: Some(q) }
}

/// Uniform distribution over the integers in `[low, high)`.
pub fn randint(low: i64, high: i64) -> Domain {
    Domain::Integer { low, high, q: None }
}

/// Uniform distribution over the multiples of `q` in `[low, high]`. Unlike Ray, which excludes `high` if `q` is 1, `high` is
/// always included.
pub fn qrandint(low: i64, high: i64, q: i64) -> Domain {
    Domain::Integer { low, high, q: Some(q) }
}

/// Log-uniform distribution over the integers in `[low, high)`: a [`loguniform`] draw, rounded down.
pub fn lograndint(low: i64, high: i64) -> Domain {
    Domain::LogInteger { low, high, q: None }
}

/// Log-uniform distribution over the multiples of `q` in `[low, high]`: `q` times a [`lograndint`] draw.
pub fn qlograndint(low: i64, high: i64, q: i64) -> Domain {
    Domain::LogInteger { low, high, q: Some(q) }
}

/// One of `options`, all equally likely.
pub fn choice<T: Into<Value>>(options: impl IntoIterator<Item = T>) -> Domain {
    Domain::Choice(options.into_iter().map(Into::into).collect())
}

/// Grid search over `options`: one trial for each, combined with every other grid of the space.
pub fn grid_search<T: Into<Value>>(options: impl IntoIterator<Item = T>) -> Domain {
    Domain::GridSearch(options.into_iter().map(Into::into).collect())
}

impl Domain {
    /// Checks the bounds and the step. The error is the rule that the domain breaks.
    pub(super) fn check(&self) -> Result<(), String> {
        match *self {
            Domain::Uniform { low, high, q } => {
                below(low, high)?;
                q.map_or(Ok(()), |q| divides(low, high, q))
            }
            Domain::LogUniform { low, high, q } => {
                positive(low)?;
                below(low, high)?;
                q.map_or(Ok(()), |q| divides(low, high, q))
            }
            Domain::Normal { sd, q, .. } => {
                if sd <= 0.0 {
                    return Err("the standard deviation must be above 0".into());
                }
                q.map_or(Ok(()), step)
            }
            Domain::Integer { low, high, q } => {
                below(low as f64, high as f64)?;
                q.map_or(Ok(()), |q| has_multiple(low, high, q))
            }
            Domain::LogInteger { low, high, q } => {
                positive(low as f64)?;
                below(low as f64, high as f64)?;
                q.map_or(Ok(()), |q| has_multiple(low, high, q))
            }
            Domain::Choice(ref options) | Domain::GridSearch(ref options) => {
                if options.is_empty() {
                    Err("it needs at least one value to take".into())
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Returns the value at the quantile `u` in `[0, 1)`. With a uniform random `u`, this is a random draw.
    pub fn at(&self, u: f64) -> Value {
        match self {
            Domain::Choice(options) | Domain::GridSearch(options) => {
                options[((u * options.len() as f64) as usize).min(options.len() - 1)].clone()
            }
            Domain::Integer { .. } | Domain::LogInteger { .. } => json!(self.number_at(u) as i64),
            _ => json!(self.number_at(u)),
        }
    }

    /// Numeric value at the quantile `u`, never decreasing in `u`; 0 for `Choice` and `GridSearch`.
    fn number_at(&self, u: f64) -> f64 {
        let between = |low: f64, high: f64| low + (high - low) * u;
        let log_between = |low: f64, high: f64| between(low.ln(), high.ln()).exp().max(low);
        let open = |value: f64, high: f64| value.min(high.next_down());
        match *self {
            Domain::Uniform { low, high, q: None } => open(between(low, high), high),
            Domain::Uniform { low, high, q: Some(q) } => round_to(between(low, high), q),
            Domain::LogUniform { low, high, q: None } => open(log_between(low, high), high),
            Domain::LogUniform { low, high, q: Some(q) } => round_to(log_between(low, high), q),
            Domain::Normal { mean, sd, q: None } => mean + sd * normal_quantile(u),
            Domain::Normal { mean, sd, q: Some(q) } => round_to(mean + sd * normal_quantile(u), q),
            Domain::Integer { low, high, q } => {
                let (first, end, q) = steps(low, high, q);
                between(first, end).floor().min(end - 1.0) * q
            }
            Domain::LogInteger { low, high, q } => {
                let (first, end, q) = steps(low, high, q);
                // Rounding errors in `ln` and `exp` can leave an integer slightly too small.
                (log_between(first, end) * (1.0 + 4.0 * f64::EPSILON)).floor().min(end - 1.0) * q
            }
            Domain::Choice(_) | Domain::GridSearch(_) => 0.0,
        }
    }

    /// Inverse of [`number_at`](Domain::number_at): the middle of the quantiles that give `value`. Values outside the bounds
    /// count as the nearest bound.
    pub(super) fn quantile_of(&self, value: f64) -> f64 {
        // Bisection finds both ends of the interval on which `number_at` equals `value`.
        let edge = |is_left: &dyn Fn(f64) -> bool| {
            let mut low = 0.0;
            let mut high = 1.0;
            for _ in 0..53 {
                let middle = 0.5 * (low + high);
                if is_left(self.number_at(middle)) { low = middle } else { high = middle }
            }
            0.5 * (low + high)
        };
        0.5 * (edge(&|at| at < value) + edge(&|at| at <= value))
    }

    /// The value of the domain that is nearest to a number. Other values, and what has no bounds, stay as they are.
    pub(crate) fn nearest(&self, value: Value) -> Value {
        let Some(number) = value.as_f64() else { return value };
        match *self {
            Domain::Uniform { low, high, q } | Domain::LogUniform { low, high, q } => {
                json!(q.map_or(number, |q| round_to(number, q)).clamp(low, high))
            }
            Domain::Normal { q: Some(q), .. } => json!(round_to(number, q)),
            Domain::Integer { low, high, q } | Domain::LogInteger { low, high, q } => {
                let (first, end, q) = steps(low, high, q);
                json!(((number / q).round_ties_even().clamp(first, end - 1.0) * q) as i64)
            }
            Domain::Normal { .. } | Domain::Choice(_) | Domain::GridSearch(_) => value,
        }
    }

    /// Whether `value` is one of the options or, for numeric domains, lies within the bounds.
    pub(super) fn is_valid(&self, value: &Value) -> bool {
        match *self {
            Domain::Uniform { low, high, .. } | Domain::LogUniform { low, high, .. } => {
                value.as_f64().is_some_and(|value| low <= value && value <= high)
            }
            Domain::Normal { .. } => value.is_number(),
            Domain::Integer { low, high, q } | Domain::LogInteger { low, high, q } => {
                let last = if q.is_some() { high } else { high - 1 };
                value.as_i64().is_some_and(|value| low <= value && value <= last)
            }
            Domain::Choice(ref options) | Domain::GridSearch(ref options) => {
                options.iter().any(|option| same(option, value))
            }
        }
    }
}

/// Compares JSON values; numbers are equal if their values are, even if one is written `1` and the other `1.0`.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

fn below(low: f64, high: f64) -> Result<(), String> {
    if low < high { Ok(()) } else { Err("the lower bound must be below the upper bound".into()) }
}

fn positive(low: f64) -> Result<(), String> {
    let rule = "the bounds must be above 0: they are the values themselves, not their logarithms";
    if low > 0.0 { Ok(()) } else { Err(rule.into()) }
}

fn step(q: f64) -> Result<(), String> {
    if q > 0.0 { Ok(()) } else { Err("q must be above 0".into()) }
}

fn divides(low: f64, high: f64, q: f64) -> Result<(), String> {
    step(q)?;
    // Same tolerance as in Ray, which uses Python's `math.isclose`.
    let is_multiple = |bound: f64| {
        let steps = bound / q;
        (steps - steps.round()).abs() <= 1e-9 * steps.abs()
    };
    match [low, high].into_iter().find(|bound| !is_multiple(*bound)) {
        None => Ok(()),
        Some(bound) => Err(format!("its bound {bound} must be a multiple of q = {q}")),
    }
}

fn has_multiple(low: i64, high: i64, q: i64) -> Result<(), String> {
    step(q as f64)?;
    let (first, end, _) = steps(low, high, Some(q));
    if first < end { Ok(()) } else { Err(format!("there must be a multiple of q = {q} between its bounds")) }
}

/// Returns the first step, the step after the last, and the size of a step.
fn steps(low: i64, high: i64, q: Option<i64>) -> (f64, f64, f64) {
    match q {
        None => (low as f64, high as f64, 1.0),
        Some(q) => {
            let first = low.div_euclid(q) + i64::from(low.rem_euclid(q) != 0);
            (first as f64, high.div_euclid(q) as f64 + 1.0, q as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_middle_of_the_quantiles_that_draw_it() {
        let near = |domain: Domain, value: f64, expected: f64| {
            let found = domain.quantile_of(value);
            assert!((found - expected).abs() < 1e-12, "{domain:?} has {value} at {found}, not {expected}");
        };
        near(uniform(2.0, 4.0), 2.5, 0.25);
        near(loguniform(1e-4, 1e-2), 1e-3, 0.5);
        near(randint(0, 5), 1.0, 0.3);
        near(quniform(0.0, 1.0, 0.5), 0.5, 0.5);
        near(randint(0, 5), -3.0, 0.0);
        near(randint(0, 5), 9.0, 1.0);
    }

    #[test]
    fn numeric_domains_hold_their_bounds_and_integers_without_steps_not_the_upper_one() {
        let held = |domain: &Domain, values: [f64; 4]| values.map(|value| domain.is_valid(&json!(value)));
        for domain in [uniform(1.0, 2.0), loguniform(1.0, 2.0)] {
            assert_eq!(held(&domain, [0.99, 1.0, 2.0, 2.01]), [false, true, true, false]);
        }
        for (domain, at_high) in
            [(randint(1, 3), false), (lograndint(1, 3), false), (qrandint(1, 3, 1), true)]
        {
            assert_eq!(
                [0, 1, 2, 3, 4].map(|value| domain.is_valid(&json!(value))),
                [false, true, true, at_high, false]
            );
        }
        assert!(!randint(1, 3).is_valid(&json!(1.5)) && !uniform(0.0, 1.0).is_valid(&json!("0.5")));
        assert!(randn(0.0, 1.0).is_valid(&json!(9)) && !randn(0.0, 1.0).is_valid(&json!(true)));
        let options = choice([json!(1), json!([2, 3]), json!("a")]);
        assert!([json!(1.0), json!([2.0, 3]), json!("a")].iter().all(|value| options.is_valid(value)));
        assert!(
            ![json!(2), json!([2]), json!([2, 4]), json!([3, 3]), json!("b")]
                .iter()
                .any(|v| options.is_valid(v))
        );
    }

    #[test]
    fn a_number_beyond_a_domain_becomes_its_nearest_value() {
        let near = |domain: Domain, numbers: [f64; 3]| numbers.map(|number| domain.nearest(json!(number)));
        assert_eq!(near(uniform(0.95, 1.0), [1.17, 0.97, 0.5]), [json!(1.0), json!(0.97), json!(0.95)]);
        assert_eq!(near(loguniform(1e-4, 1e-2), [1.0, 1e-3, 0.0]), [json!(1e-2), json!(1e-3), json!(1e-4)]);
        assert_eq!(near(quniform(0.0, 1.0, 0.25), [0.7, 1.3, -2.0]), [json!(0.75), json!(1.0), json!(0.0)]);
        assert_eq!(near(randint(2, 9), [9.6, 4.4, 0.0]), [json!(8), json!(4), json!(2)]);
        assert_eq!(near(qlograndint(8, 64, 8), [70.0, 35.0, 1.0]), [json!(64), json!(32), json!(8)]);
        assert_eq!(near(randn(0.0, 1.0), [7.5, 0.0, -9.0]), [json!(7.5), json!(0.0), json!(-9.0)]);
    }

    #[test]
    fn an_option_is_drawn_by_its_share_and_large_integers_stay_below_their_bound() {
        let options = choice(["a", "b", "c", "d"]);
        assert_eq!([0.0, 0.25, 0.5, 0.99].map(|u| options.at(u)), ["a", "b", "c", "d"]);
        // Here `low + (high - low) * u` rounds up to `high`.
        assert_eq!(randint(1_000_000, 1_000_003).at(1.0_f64.next_down()), json!(1_000_002));
    }
}
