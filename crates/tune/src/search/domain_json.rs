//! The JSON form of domains: an object with one key, such as `{"loguniform": [1e-4, 1e-1]}`.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::domain::{
    Domain, lograndint, loguniform, qlograndint, qloguniform, qrandint, qrandn, quniform, randint, randn,
    uniform,
};
use crate::base::config::nearest;
use crate::base::{Error, Result};

/// Names of all domains in their JSON form.
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

/// Names that other libraries use, each with the name of the same domain here.
const ELSEWHERE: [(&str, &str); 5] = [
    ("categorical", "choice"),
    ("grid", "grid_search"),
    ("int_uniform", "randint"),
    ("normal", "randn"),
    ("reals", "uniform"),
];

impl Domain {
    /// Parses the JSON form of a domain. Returns `None` if `value` is a plain value. `path` names the setting in errors.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the bounds are invalid, if arguments are missing, too many or of the wrong type, or if
    /// `value` is an object with one key that resembles the name of a domain.
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

    /// Returns the JSON form, such as `{"uniform": [0.0, 1.0]}`.
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

/// Returns the key and the value of an object that has exactly one key.
pub(super) fn single(value: &Value) -> Option<(&str, &Value)> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.iter().next().map(|(key, value)| (key.as_str(), value))
}

/// Builds a domain from its name and arguments. The error says which arguments the domain takes.
fn build(name: &str, arguments: &[Value]) -> Result<Domain, String> {
    if matches!(name, "choice" | "grid_search") {
        let options = arguments.to_vec();
        return Ok(if name == "choice" { Domain::Choice(options) } else { Domain::GridSearch(options) });
    }
    let float = |index: usize| arguments[index].as_f64().ok_or("its arguments must be numbers".to_string());
    let integer =
        |index: usize| exact_integer(&arguments[index]).ok_or("its arguments must be integers".to_string());
    let takes = |counts: std::ops::RangeInclusive<usize>, form: &str| {
        if counts.contains(&arguments.len()) { Ok(()) } else { Err(format!("it must be written {form}")) }
    };
    // Ray takes a base here, so it is accepted, though it does not change the distribution.
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

/// Returns the integer in `value`, also if it is written as `10.0`; `None` beyond 2^53, where doubles skip integers.
fn exact_integer(value: &Value) -> Option<i64> {
    let number =
        value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= (1u64 << 53) as f64)?;
    Some(number as i64)
}
