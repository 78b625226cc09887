//! Settings as a flat list.

use serde_json::{Map, Value};

/// Lists the settings under their dotted keys; an object that is not empty is replaced by its members.
pub(super) fn leaves<'a>(config: &'a Map<String, Value>, prefix: &str) -> Vec<(String, &'a Value)> {
    let walk = |(name, value): (&String, &'a Value)| {
        let key = format!("{prefix}{name}");
        match value {
            Value::Object(inner) if !inner.is_empty() => leaves(inner, &format!("{key}.")),
            _ => vec![(key, value)],
        }
    };
    config.iter().flat_map(walk).collect()
}
