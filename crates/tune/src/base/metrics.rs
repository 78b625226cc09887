//! [`Metrics`]: what one training iteration reports.

use std::ops::{Deref, DerefMut, Index};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One result as a JSON object, which may contain nested objects.
///
/// A value that does not exist yet is `null`, since JSON has no NaN. It is read and written as the map of
/// [`serde_json`] that it contains, and is a type of its own so that settings are never taken for a result:
///
/// ```
/// use pavlov_tune::Metrics;
///
/// let mut result = Metrics::from([("loss", 0.5)]);
/// result.insert("epoch".into(), 3.into());
/// assert_eq!(result["epoch"], 3);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metrics(Map<String, Value>);

impl Metrics {
    /// Makes a result without a metric.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a metric, and returns its value until then. Unlike the map's own method, it may be given what is computed from
    /// this result.
    pub fn insert(&mut self, name: String, value: Value) -> Option<Value> {
        self.0.insert(name, value)
    }
}

/// `null` for a metric that the result has not, as in a nested object.
impl Index<&str> for Metrics {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }
}

impl Deref for Metrics {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Metrics {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl From<Map<String, Value>> for Metrics {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

/// Makes a result of values of one type by name.
impl<K: Into<String>, V: Into<Value>, const N: usize> From<[(K, V); N]> for Metrics {
    fn from(metrics: [(K, V); N]) -> Self {
        metrics.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }
}

impl From<Metrics> for Map<String, Value> {
    fn from(metrics: Metrics) -> Self {
        metrics.0
    }
}

impl From<Metrics> for Value {
    fn from(metrics: Metrics) -> Self {
        Self::Object(metrics.0)
    }
}

impl FromIterator<(String, Value)> for Metrics {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(metrics: I) -> Self {
        Self(Map::from_iter(metrics))
    }
}

impl IntoIterator for Metrics {
    type Item = (String, Value);
    type IntoIter = serde_json::map::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Metrics {
    type Item = (&'a String, &'a Value);
    type IntoIter = serde_json::map::Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Flattens nested objects: returns every value that is not an object, with its keys joined by `/`, in order.
pub fn flatten(object: &Map<String, Value>) -> Vec<(String, &Value)> {
    fn walk<'a>(prefix: &str, object: &'a Map<String, Value>, flat: &mut Vec<(String, &'a Value)>) {
        for (name, value) in object {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            match value {
                Value::Object(inner) => walk(&key, inner, flat),
                _ => flat.push((key, value)),
            }
        }
    }
    let mut flat = Vec::new();
    walk("", object, &mut flat);
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_keys_are_joined_by_slashes_in_order() {
        let result: Metrics =
            serde_json::from_str(r#"{"b": {"y": 1, "x": {"z": null}}, "a": [2], "e": {}}"#).unwrap();
        let keys: Vec<String> = flatten(&result).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["b/y", "b/x/z", "a"]);
    }
}
