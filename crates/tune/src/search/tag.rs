//! Tags of trials: the trial's number and its drawn values, usable as a file name.

use serde_json::Value;

use super::template::order;

/// Returns the tag of trial `number`, as Ray writes it: `4_clip_param=0.3000,lr=0.0010`.
///
/// Values are sorted by path, and each is named by the last part of its path. Floats have four decimals. In names and other
/// values, characters other than letters, digits, `-` and `_` become `_`.
pub fn experiment_tag(number: u64, drawn: &[(String, Value)]) -> String {
    let values = format_vars(drawn);
    if values.is_empty() { number.to_string() } else { format!("{number}_{values}") }
}

/// Returns the part of a tag with the drawn values: `clip_param=0.3000,lr=0.0010`.
pub(crate) fn format_vars(drawn: &[(String, Value)]) -> String {
    let mut drawn: Vec<&(String, Value)> = drawn.iter().collect();
    drawn.sort_by_cached_key(|(path, _)| order(path));
    let values: Vec<String> = drawn
        .into_iter()
        .map(|(path, value)| {
            let name = path.rsplit('.').next().unwrap_or(path);
            format!("{}={}", clean(name), shown(value))
        })
        .collect();
    values.join(",")
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => format!("{:.4}", number.as_f64().unwrap_or_default()),
        Value::String(text) => clean(text),
        value => clean(&python(value)),
    }
}

/// Replaces each run of characters other than ASCII letters, digits, `-` and `_` by one `_`, and trims `_` at both ends.
fn clean(text: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut cleaned = String::new();
    let mut replaced = false;
    for c in text.chars() {
        if keep(c) {
            cleaned.push(c);
        } else if !replaced {
            cleaned.push('_');
        }
        replaced = !keep(c);
    }
    cleaned.trim_matches('_').to_owned()
}

/// Formats a value like Python's `str`, except for characters that [`clean`] replaces anyway.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(number) if number.is_f64() => python_float(number.as_f64().unwrap_or_default()),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("'{text}'"),
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| format!("'{key}': {}", python(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Formats a float like Python's `repr`: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
fn python_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    match scientific.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse().ok()?))) {
        Some((digits, exponent)) if !(-4..16).contains::<i32>(&exponent) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => format!("{number:?}"),
    }
}
