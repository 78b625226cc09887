//! [`Config`]: the settings of a trainable.

use std::ops::{Deref, DerefMut, Index, IndexMut};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::{Error, Result};

/// Settings as a JSON object.
///
/// It is read and written as the map of [`serde_json`] that it contains. Unlike that map, it gives `null` for a key that it
/// has not, as a nested object does:
///
/// ```
/// use pavlov_tune::Config;
///
/// let config = Config::from([("lr", 0.5)]);
/// assert_eq!(config["lr"], 0.5);
/// assert!(config["momentum"].is_null());
/// assert_eq!(config.get_or("momentum", 0.9)?, 0.9);
/// # Ok::<(), pavlov_tune::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(Map<String, Value>);

impl Config {
    /// Makes settings without a key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the setting `key`, or `default` if the key is missing or `null`.
    ///
    /// ```
    /// # use pavlov_tune::Config;
    /// let config = Config::from([("lr", "fast")]);
    /// let error = config.get_or("lr", 0.1).unwrap_err();
    /// assert_eq!(error.to_string(), r#"`lr` is "fast", but it must be a value such as 0.1"#);
    /// assert_eq!(config.get_or("epochs", 3)?, 3);
    /// # Ok::<(), pavlov_tune::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the setting has a value of another type.
    pub fn get_or<T: Serialize + DeserializeOwned>(&self, key: &str, default: T) -> Result<T> {
        match &self[key] {
            Value::Null => Ok(default),
            value => T::deserialize(value).map_err(|_| {
                let like = serde_json::to_value(&default).unwrap_or_default();
                Error::config(key, value, format!("it must be a value such as {like}"))
            }),
        }
    }
}

impl Index<&str> for Config {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }
}

/// Adds the key, with the value `null`, if it is missing.
impl IndexMut<&str> for Config {
    fn index_mut(&mut self, key: &str) -> &mut Value {
        self.0.entry(key).or_insert(Value::Null)
    }
}

impl Deref for Config {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl From<Map<String, Value>> for Config {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

/// Makes settings of values of one type by name.
impl<K: Into<String>, V: Into<Value>, const N: usize> From<[(K, V); N]> for Config {
    fn from(settings: [(K, V); N]) -> Self {
        settings.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }
}

impl From<Config> for Map<String, Value> {
    fn from(config: Config) -> Self {
        config.0
    }
}

impl From<Config> for Value {
    fn from(config: Config) -> Self {
        Self::Object(config.0)
    }
}

impl FromIterator<(String, Value)> for Config {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(settings: I) -> Self {
        Self(Map::from_iter(settings))
    }
}

impl IntoIterator for Config {
    type Item = (String, Value);
    type IntoIter = serde_json::map::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Config {
    type Item = (&'a String, &'a Value);
    type IntoIter = serde_json::map::Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut Config {
    type Item = (&'a String, &'a mut Value);
    type IntoIter = serde_json::map::IterMut<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}
