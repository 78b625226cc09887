//! Values of arguments: what they stand for, and how Python shows them.

use serde_json::Value;

/// Returns the first value of a temperature that is learned.
pub(super) fn temperature(value: &Value) -> Option<f64> {
    let first = value.as_str()?.strip_prefix("auto")?;
    if first.is_empty() {
        return Some(1.0);
    }
    first.strip_prefix('_')?.parse().ok().filter(|first: &f64| first.is_finite() && *first > 0.0)
}

/// Returns a finite number. Texts and truth values are none.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

/// Whether a value stands for a function of the progress that remains: `{"schedule": [values]}`.
pub(super) fn is_schedule(value: &Value) -> bool {
    schedule(value).is_some()
}

/// Returns the values of a function at equally far points of the progress.
pub(super) fn schedule(value: &Value) -> Option<&Vec<Value>> {
    value.get("schedule")?.as_array()
}

/// Returns the name of an activation here.
pub(super) fn activation(value: &Value) -> Option<&'static str> {
    Some(match value.as_str()?.to_lowercase().as_str() {
        "relu" => "relu",
        "tanh" => "tanh",
        "elu" => "elu",
        "silu" | "swish" => "swish",
        "identity" => "linear",
        _ => return None,
    })
}

/// Whether two values are equal, 1 and 1.0 too.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    one == other || number(one).is_some_and(|one| number(other) == Some(one))
}

/// Returns a value as Python shows it. What JSON cannot hold is `{"object": text}`.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(flag) => if *flag { "True" } else { "False" }.into(),
        Value::String(text) => format!("'{text}'"),
        Value::Array(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Object(_) if is_schedule(value) => "a function".into(),
        Value::Object(parts) if parts.contains_key("noise") => "an action noise".into(),
        Value::Object(parts) => match parts.get("object") {
            Some(Value::String(text)) => text.clone(),
            _ => {
                let parts = parts.iter().map(|(key, value)| format!("'{key}': {}", shown(value)));
                format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
            }
        },
        Value::Number(number) => number.to_string(),
    }
}
