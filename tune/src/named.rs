//! What a sweep file names by `type`: the names that a program registered, and how settings are read.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::{Layer, decode, nearest, overlay};
use crate::{Config, Error, Result};

/// Makes a `T` from its settings, without `type`, and a seed.
pub(crate) type Make<T> = dyn Fn(&Config, u64) -> Result<Box<T>> + Send + Sync;

/// What a program registered, by name. Upper and lower case are the same.
pub(crate) struct Registry<T: ?Sized> {
    makers: Mutex<Vec<(String, Arc<Make<T>>)>>,
}

impl<T: ?Sized> Registry<T> {
    pub(crate) const fn new() -> Self {
        Registry { makers: Mutex::new(Vec::new()) }
    }

    /// Replaces the maker of the same name.
    pub(crate) fn register(&self, name: &str, make: Arc<Make<T>>) {
        let mut makers = self.makers.lock().unwrap_or_else(PoisonError::into_inner);
        makers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        makers.push((name.into(), make));
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Make<T>>> {
        let makers = self.makers.lock().unwrap_or_else(PoisonError::into_inner);
        makers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, make)| make.clone())
    }

    /// In the order in which they were registered.
    pub(crate) fn names(&self) -> Vec<String> {
        let makers = self.makers.lock().unwrap_or_else(PoisonError::into_inner);
        makers.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// The `type`, and the other settings.
pub(crate) fn split<'a>(path: &str, config: &'a Config) -> Result<(&'a str, Config)> {
    let key = format!("{path}.type");
    let name = config.get("type").ok_or_else(|| Error::missing(&key, "write a name there"))?;
    let name = name.as_str().ok_or_else(|| Error::config(&key, name, "it must be a name"))?;
    let settings = config.iter().filter(|(key, _)| *key != "type");
    Ok((name, settings.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

/// The error for a `type` that does not exist. `names`: every spelling; `listed`: those that the message lists.
pub(crate) fn unknown_type<'a>(
    path: &str,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
    listed: &[&str],
    registered: &'a [String],
) -> Error {
    let own = registered.iter().map(String::as_str);
    let way_out = match nearest(name, names.into_iter().chain(own.clone())) {
        Some(near) => format!("there is no such one; nearest: {near}"),
        None => {
            let all: Vec<&str> = listed.iter().copied().chain(own).collect();
            format!("it must be one of {}", all.join(", "))
        }
    };
    Error::config(format!("{path}.type"), format!("{name:?}"), way_out)
}

/// `settings` laid over `defaults`, decoded.
pub(crate) fn settings_of<T: Serialize + DeserializeOwned>(
    path: &str,
    settings: Config,
    defaults: &T,
) -> Result<T> {
    let Value::Object(defaults) = serde_json::to_value(defaults).map_err(Error::other)? else {
        return Err(Error::config(path, "no object", "settings are objects"));
    };
    // Mutations and nested schedulers have keys of their own.
    let objects = defaults.iter().filter(|(_, value)| value.is_object());
    let open: Vec<&str> = objects.map(|(name, _)| name.as_str()).collect();
    let layer = Layer { origin: "the sweep".into(), values: settings };
    let below = |error| match error {
        Error::UnknownKey { key, origin, nearest, known } => {
            Error::UnknownKey { key: format!("{path}.{key}"), origin, nearest, known }
        }
        Error::Missing { key, rule } => Error::Missing { key: format!("{path}.{key}"), rule },
        Error::Config { key, value, rule } => Error::Config { key: format!("{path}.{key}"), value, rule },
        error => error,
    };
    decode(&overlay(&defaults, vec![layer], &open).map_err(below)?.config).map_err(below)
}
