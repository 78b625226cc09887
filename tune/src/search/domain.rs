//! What one setting is drawn from, and its form in JSON: an object with one key, `{"loguniform": [1e-4, 1e-1]}`.
//!
//! The functions have the names and arguments of Ray Tune. Bounds are checked where a space is used, since only there
//! the setting at fault has a name.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::quantile::{normal_quantile, round_to};
use crate::config::nearest;
use crate::{Error, Result};

/// Every name that a domain has in JSON.
pub(super) const NAMES: [&str; 12] = [
    "uniform",
    "quniform",
    "loguniform",
    "qloguniform",
    "randn",
    "qrandn",
    "randint",
    "qrandint",
    "lograndint",
    "qlograndint",
    "choice",
    "grid_search",
];

/// Names that other libraries have for the same.
const ELSEWHERE: [(&str, &str); 5] = [
    ("categorical", "choice"),
    ("grid", "grid_search"),
    ("int_uniform", "randint"),
    ("normal", "randn"),
    ("reals", "uniform"),
];

/// The values that a setting may take, and how likely each is.
///
/// It serialises to its JSON form, so it can stand in `json!` where a value would.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Numbers from `low` up to, but without, `high`. With `q`: its multiples, `high` included.
    Uniform {
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
        /// Step.
        q: Option<f64>,
    },
    /// Numbers whose logarithm is uniform; bounds as for [`Domain::Uniform`].
    LogUniform {
        /// Lower bound, above 0.
        low: f64,
        /// Upper bound.
        high: f64,
        /// Step.
        q: Option<f64>,
    },
    /// A normal distribution.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
        /// Step.
        q: Option<f64>,
    },
    /// Integers from `low` up to, but without, `high`. With `q`: its multiples, `high` included.
    Integer {
        /// Lower bound.
        low: i64,
        /// Upper bound.
        high: i64,
        /// Step.
        q: Option<i64>,
    },
    /// Integers whose logarithm is uniform before they are rounded down; bounds as for [`Domain::Integer`].
    LogInteger {
        /// Lower bound, 1 or more.
        low: i64,
        /// Upper bound.
        high: i64,
        /// Step.
        q: Option<i64>,
    },
    /// One of these, each as likely. An object or list in it may hold domains; they are drawn if it is chosen.
    Choice(Vec<Value>),
    /// Each of these in turn. An object or list in it may hold domains.
    GridSearch(Vec<Value>),
}

/// Numbers in `[low, high)`.
pub fn uniform(low: f64, high: f64) -> Domain {
    Domain::Uniform { low, high, q: None }
}

/// Multiples of `q` in `[low, high]`: a uniform draw, rounded, so the bounds are half as likely as the rest.
pub fn quniform(low: f64, high: f64, q: f64) -> Domain {
    Domain::Uniform { low, high, q: Some(q) }
}

/// Numbers in `[low, high)` whose logarithm is uniform, to any base.
pub fn loguniform(low: f64, high: f64) -> Domain {
    Domain::LogUniform { low, high, q: None }
}

/// [`loguniform`], rounded to multiples of `q`.
pub fn qloguniform(low: f64, high: f64, q: f64) -> Domain {
    Domain::LogUniform { low, high, q: Some(q) }
}

/// The normal distribution with this mean and standard deviation.
pub fn randn(mean: f64, sd: f64) -> Domain {
    Domain::Normal { mean, sd, q: None }
}

/// [`randn`], rounded to multiples of `q`.
pub fn qrandn(mean: f64, sd: f64, q: f64) -> Domain {
    Domain::Normal { mean, sd, q: Some(q) }
}

/// Integers in `[low, high)`.
pub fn randint(low: i64, high: i64) -> Domain {
    Domain::Integer { low, high, q: None }
}

/// Multiples of `q` in `[low, high]`, each as likely. Ray leaves `high` out when `q` is 1; here it never is.
pub fn qrandint(low: i64, high: i64, q: i64) -> Domain {
    Domain::Integer { low, high, q: Some(q) }
}

/// Integers in `[low, high)`: [`loguniform`], rounded down.
pub fn lograndint(low: i64, high: i64) -> Domain {
    Domain::LogInteger { low, high, q: None }
}

/// Multiples of `q` in `[low, high]`, their number of steps drawn as by [`lograndint`].
pub fn qlograndint(low: i64, high: i64, q: i64) -> Domain {
    Domain::LogInteger { low, high, q: Some(q) }
}

/// One of `options`, each as likely.
pub fn choice<T: Into<Value>>(options: impl IntoIterator<Item = T>) -> Domain {
    Domain::Choice(options.into_iter().map(Into::into).collect())
}

/// Each of `options` in turn, crossed with every other grid of the space.
pub fn grid_search<T: Into<Value>>(options: impl IntoIterator<Item = T>) -> Domain {
    Domain::GridSearch(options.into_iter().map(Into::into).collect())
}

impl Domain {
    /// The domain that `value` is, or `None` if it is a plain value. `path` names it in errors.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the bounds make no sense, if arguments are missing, too many or of the wrong kind,
    /// or if `value` is an object with one key that is nearly the name of a domain.
    pub fn parse(path: &str, value: &Value) -> Result<Option<Domain>> {
        let Some((name, arguments)) = single(value) else { return Ok(None) };
        let refuse = |rule: String| Err(Error::config(path, value, rule));
        if !NAMES.contains(&name) {
            let near = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, ours)| *ours);
            return match near.or_else(|| nearest(name, NAMES)) {
                Some(near) if arguments.is_array() => refuse(format!(
                    "there is no domain `{name}`; nearest: `{near}`. A setting of that name is written \
                     {{\"literal\": {{\"{name}\": ...}}}}"
                )),
                _ => Ok(None),
            };
        }
        let Some(arguments) = arguments.as_array() else {
            return refuse(format!(
                "`{name}` takes a list. A setting of that name is written {{\"literal\": {{\"{name}\": ...}}}}"
            ));
        };
        build(name, arguments).and_then(|domain| domain.check().map(|()| Some(domain))).or_else(refuse)
    }

    /// The rule that it breaks.
    fn check(&self) -> Result<(), String> {
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
            Domain::Choice(ref options) | Domain::GridSearch(ref options) => match options.is_empty() {
                true => Err("it needs at least one value to take".into()),
                false => Ok(()),
            },
        }
    }

    /// The value at the quantile `u` in `[0, 1)`: with uniform `u`, a draw.
    pub fn at(&self, u: f64) -> Value {
        match self {
            Domain::Choice(options) | Domain::GridSearch(options) => {
                options[((u * options.len() as f64) as usize).min(options.len() - 1)].clone()
            }
            Domain::Integer { .. } | Domain::LogInteger { .. } => json!(self.number_at(u) as i64),
            _ => json!(self.number_at(u)),
        }
    }

    /// [`at`](Domain::at) for domains of numbers; it never falls as `u` rises.
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
                // A logarithm and its inverse may come out a rounding error below an integer.
                (log_between(first, end) * (1.0 + 4.0 * f64::EPSILON)).floor().min(end - 1.0) * q
            }
            Domain::Choice(_) | Domain::GridSearch(_) => 0.0,
        }
    }

    /// The middle of the quantiles whose value is the number `value`; values outside count as the nearest bound.
    pub(super) fn quantile_of(&self, value: f64) -> f64 {
        // Both ends of the stretch on which `number_at` is `value`, by bisection.
        let edge = |is_left: &dyn Fn(f64) -> bool| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..53 {
                let middle = 0.5 * (low + high);
                if is_left(self.number_at(middle)) { low = middle } else { high = middle }
            }
            0.5 * (low + high)
        };
        0.5 * (edge(&|at| at < value) + edge(&|at| at <= value))
    }

    /// Whether `value` can be drawn; for numbers, whether it is within the bounds.
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

    /// Its JSON form.
    fn form(&self) -> Value {
        match self {
            Domain::Uniform { low, high, q: None } => json!({"uniform": [low, high]}),
            Domain::Uniform { low, high, q: Some(q) } => json!({"quniform": [low, high, q]}),
            Domain::LogUniform { low, high, q: None } => json!({"loguniform": [low, high]}),
            Domain::LogUniform { low, high, q: Some(q) } => json!({"qloguniform": [low, high, q]}),
            Domain::Normal { mean, sd, q: None } => json!({"randn": [mean, sd]}),
            Domain::Normal { mean, sd, q: Some(q) } => json!({"qrandn": [mean, sd, q]}),
            Domain::Integer { low, high, q: None } => json!({"randint": [low, high]}),
            Domain::Integer { low, high, q: Some(q) } => json!({"qrandint": [low, high, q]}),
            Domain::LogInteger { low, high, q: None } => json!({"lograndint": [low, high]}),
            Domain::LogInteger { low, high, q: Some(q) } => json!({"qlograndint": [low, high, q]}),
            Domain::Choice(options) => json!({"choice": options}),
            Domain::GridSearch(options) => json!({"grid_search": options}),
        }
    }
}

impl Serialize for Domain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.form().serialize(serializer)
    }
}

impl From<Domain> for Value {
    fn from(domain: Domain) -> Self {
        domain.form()
    }
}

/// Key and value of an object with one key.
pub(super) fn single(value: &Value) -> Option<(&str, &Value)> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.iter().next().map(|(key, value)| (key.as_str(), value))
}

/// Equal, whole numbers also when one is written 1 and the other 1.0.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

/// A domain from its name and arguments, or what they should have been.
fn build(name: &str, arguments: &[Value]) -> Result<Domain, String> {
    if matches!(name, "choice" | "grid_search") {
        let options = arguments.to_vec();
        return Ok(if name == "choice" { Domain::Choice(options) } else { Domain::GridSearch(options) });
    }
    let float = |index: usize| arguments[index].as_f64().ok_or("its arguments must be numbers".to_string());
    let integer =
        |index: usize| exact_integer(&arguments[index]).ok_or("its arguments must be integers".to_string());
    let takes = |counts: std::ops::RangeInclusive<usize>, form: &str| match counts.contains(&arguments.len())
    {
        true => Ok(()),
        false => Err(format!("it must be written {form}")),
    };
    // The base does not change what is drawn. Ray had it, so it may stand there.
    let base = |index: usize| match arguments.get(index).map(Value::as_f64) {
        None => Ok(()),
        Some(Some(base)) if base > 0.0 && base != 1.0 => Ok(()),
        Some(_) => Err("the base must be a number above 0 and not 1".to_string()),
    };
    Ok(match name {
        "uniform" => {
            takes(2..=2, "[low, high]")?;
            uniform(float(0)?, float(1)?)
        }
        "quniform" => {
            takes(3..=3, "[low, high, q]")?;
            quniform(float(0)?, float(1)?, float(2)?)
        }
        "loguniform" => {
            takes(2..=3, "[low, high] or [low, high, base]")?;
            base(2)?;
            loguniform(float(0)?, float(1)?)
        }
        "qloguniform" => {
            takes(3..=4, "[low, high, q] or [low, high, q, base]")?;
            base(3)?;
            qloguniform(float(0)?, float(1)?, float(2)?)
        }
        "randn" => {
            takes(0..=2, "[mean, sd]; without them, 0 and 1")?;
            let or = |index, default| if arguments.len() > index { float(index) } else { Ok(default) };
            randn(or(0, 0.0)?, or(1, 1.0)?)
        }
        "qrandn" => {
            takes(3..=3, "[mean, sd, q]")?;
            qrandn(float(0)?, float(1)?, float(2)?)
        }
        "randint" => {
            takes(2..=2, "[low, high]")?;
            randint(integer(0)?, integer(1)?)
        }
        "qrandint" => {
            takes(2..=3, "[low, high, q]; without q, 1")?;
            qrandint(integer(0)?, integer(1)?, if arguments.len() > 2 { integer(2)? } else { 1 })
        }
        "lograndint" => {
            takes(2..=3, "[low, high] or [low, high, base]")?;
            base(2)?;
            lograndint(integer(0)?, integer(1)?)
        }
        _ => {
            takes(3..=4, "[low, high, q] or [low, high, q, base]")?;
            base(3)?;
            qlograndint(integer(0)?, integer(1)?, integer(2)?)
        }
    })
}

/// An integer that a double holds exactly, 10.0 included.
fn exact_integer(value: &Value) -> Option<i64> {
    let number =
        value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= (1u64 << 53) as f64)?;
    Some(number as i64)
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
    // Python's math.isclose, which Ray uses here: to nine digits.
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

/// First step, the one after the last, and what a step is worth.
fn steps(low: i64, high: i64, q: Option<i64>) -> (f64, f64, f64) {
    match q {
        None => (low as f64, high as f64, 1.0),
        Some(q) => {
            let first = low.div_euclid(q) + i64::from(low.rem_euclid(q) != 0);
            (first as f64, high.div_euclid(q) as f64 + 1.0, q as f64)
        }
    }
}
