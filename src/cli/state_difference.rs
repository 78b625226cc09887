//! The first difference between the states that two checkpoints hold.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::trainer::state::State;
use crate::tune::checkpoint;

/// The file with the driver's times and measured speeds, which no two runs share.
const METADATA: &str = "metadata.json";

/// Describes the first difference between two checkpoints; `None` if their states are equal bit for bit.
pub(super) fn difference(saved: &Path, again: &Path) -> anyhow::Result<Option<String>> {
    let files = |dir: &Path| -> anyhow::Result<BTreeSet<String>> {
        let files = checkpoint::verify(dir, None)?.files.into_iter().map(|file| file.path);
        Ok(files.filter(|path| path != METADATA).collect())
    };
    let [saved_files, again_files] = [files(saved)?, files(again)?];
    if let Some(file) = saved_files.symmetric_difference(&again_files).next() {
        let holder = if saved_files.contains(file) {
            "the run's checkpoint alone has"
        } else {
            "only training again wrote"
        };
        return Ok(Some(format!("{holder} {file}")));
    }
    // Arrays first: a difference in them says more than one in a counter beside them.
    let is_arrays = |file: &&String| file.ends_with(".safetensors");
    for file in saved_files.iter().filter(is_arrays).chain(saved_files.iter().filter(|file| !is_arrays(file)))
    {
        let [a, b] = [saved, again].map(|dir| fs::read(dir.join(file)));
        let a = a?;
        let b = b?;
        if a == b {
            continue;
        }
        let stem = file.strip_suffix(".safetensors");
        let within = match stem {
            Some(stem) => arrays(&State::read(saved, stem)?, &State::read(again, stem)?),
            None => match (serde_json::from_slice(&a), serde_json::from_slice(&b)) {
                (Ok(a), Ok(b)) => json(&a, &b),
                _ => None,
            },
        };
        return Ok(Some(format!(
            "{file} differs{}",
            within.map_or_else(String::new, |within| format!(": {within}"))
        )));
    }
    Ok(None)
}

/// The first array that differs.
fn arrays(saved: &State, again: &State) -> Option<String> {
    for name in saved.array_names() {
        let (Ok(a), Ok(b)) = (saved.array(name), again.array(name)) else {
            return Some(format!("the array {name} is missing in the other"));
        };
        if a.shape() != b.shape() {
            return Some(format!(
                "the array {name} has the shape {:?}, trained again {:?}",
                a.shape(),
                b.shape()
            ));
        }
        let [a, b] = [a, b].map(crate::trainer::state::Array::bytes);
        let count = a.iter().zip(b).filter(|(a, b)| a != b).count();
        if count > 0 {
            return Some(format!("the array {name}, in {count} of {} bytes", a.len()));
        }
    }
    None
}

/// The first path of two JSON values at which they differ, and both values there.
fn json(saved: &Value, again: &Value) -> Option<String> {
    let mut first = None;
    walk("", saved, again, &mut |path, saved, again| {
        first.get_or_insert_with(|| format!("{path} is {}, trained again {}", short(saved), short(again)));
    });
    first
}

/// Calls `visit` for each path of two JSON values at which they differ, with both values there; one that is absent is null.
pub(super) fn walk(path: &str, a: &Value, b: &Value, visit: &mut impl FnMut(&str, &Value, &Value)) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let value = |of: &serde_json::Map<String, Value>| of.get(key).cloned().unwrap_or_default();
                walk(&below(key), &value(a), &value(b), visit);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| walk(&below(&i.to_string()), a, b, visit));
        }
        _ if a == b => {}
        _ => visit(path, a, b),
    }
}

/// A value as JSON, cut after sixty characters.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_key_that_differs_is_named_with_both_values() {
        let [a, b] = [
            json!({"lr": 0.1, "model": {"units": [64, 64]}}),
            json!({"lr": 0.1, "model": {"units": [64, 32]}}),
        ];
        assert_eq!(json(&a, &b).as_deref(), Some("model.units.1 is 64, trained again 32"));
        assert_eq!(json(&a, &a), None);
    }
}
