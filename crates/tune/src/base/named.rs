//! [`Registry`]: the schedulers, searchers or stoppers that a file can name by `type`, built-in and registered ones.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::base::config::{Layer, decode, nearest, overlay};
use crate::base::{Config, Error, Result};

/// Function that makes a `T` from its settings (without `type`) and a seed.
type Make<T> = dyn Fn(&Config, u64) -> Result<Box<T>> + Send + Sync;

/// A built-in scheduler, searcher, stopper or other object that files can name.
pub(crate) struct Entry<T: ?Sized> {
    /// Names of the object; the first is the canonical name.
    pub(crate) names: &'static [&'static str],
    /// Function that makes the object from the key of its settings (for error messages), the settings without `type`, and a
    /// seed.
    pub(crate) make: fn(&str, Config, u64) -> Result<Box<T>>,
}

/// Registry of all objects of one kind, e.g. all schedulers, that files can name. Case is ignored in names.
pub(crate) struct Registry<T: ?Sized + 'static> {
    /// Name of the kind for error messages, e.g. `scheduler`.
    kind: &'static str,
    entries: &'static [Entry<T>],
    /// Names and functions that the program registered, in the order of registration.
    registered: Mutex<Vec<(String, Arc<Make<T>>)>>,
}

impl<T: ?Sized> Registry<T> {
    pub(crate) const fn new(kind: &'static str, entries: &'static [Entry<T>]) -> Self {
        Registry { kind, entries, registered: Mutex::new(Vec::new()) }
    }

    /// Registers `make` under `name`, in place of an earlier registration of the same name.
    pub(crate) fn register(
        &self,
        name: &str,
        make: impl Fn(&Config, u64) -> Result<Box<T>> + Send + Sync + 'static,
    ) {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        registered.push((name.into(), Arc::new(make)));
    }

    /// Makes the object that `config` describes: its name under `type`, and its settings. `path` is the key of `config`
    /// in error messages.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] without a `type`, [`Error::Config`] with an unknown one, and the error of the function
    /// that makes the object.
    pub(crate) fn build(&self, path: &str, config: &Config, seed: u64) -> Result<Box<T>> {
        let name = self.name(path, config)?;
        let settings: Config = config.clone().into_iter().filter(|(key, _)| key != "type").collect();
        if let Some(make) = self.find_registered(name) {
            return make(&settings, seed);
        }
        match self.entry(name) {
            Some(entry) => (entry.make)(path, settings, seed),
            None => Err(self.unknown(path, name)),
        }
    }

    /// Returns the `type` of `config`.
    pub(crate) fn name<'a>(&self, path: &str, config: &'a Config) -> Result<&'a str> {
        let key = format!("{path}.type");
        let names = || self.listed().join(", ");
        let name =
            config.get("type").ok_or_else(|| Error::missing(&key, format!("write one of {}", names())))?;
        name.as_str().ok_or_else(|| Error::config(&key, name, format!("it must be one of {}", names())))
    }

    /// Lists the canonical names of the built-in objects, then the names that the program registered.
    pub(crate) fn listed(&self) -> Vec<String> {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let own = registered.iter().map(|(name, _)| name.clone());
        self.entries.iter().map(|entry| entry.names[0].into()).chain(own).collect()
    }

    /// Returns the canonical name of the built-in object that `name` stands for; `None` if there is none, or if the program
    /// registered an object under `name`.
    pub(crate) fn canonical(&self, name: &str) -> Option<&'static str> {
        if self.find_registered(name).is_some() {
            return None;
        }
        self.entry(name).map(|entry| entry.names[0])
    }

    fn entry(&self, name: &str) -> Option<&'static Entry<T>> {
        self.entries.iter().find(|entry| entry.names.iter().any(|known| known.eq_ignore_ascii_case(name)))
    }

    fn find_registered(&self, name: &str) -> Option<Arc<Make<T>>> {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, make)| make.clone())
    }

    fn unknown(&self, path: &str, name: &str) -> Error {
        let listed = self.listed();
        let all = self.entries.iter().flat_map(|entry| entry.names).copied();
        let way_out = match nearest(name, all.chain(listed.iter().map(String::as_str))) {
            Some(near) => format!("there is no such {}; nearest: {near}", self.kind),
            None => format!("it must be one of {}", listed.join(", ")),
        };
        Error::config(format!("{path}.type"), format!("{name:?}"), way_out)
    }
}

/// Applies `settings` to `defaults` and decodes the result; `path` is their key in error messages.
pub(crate) fn settings_of<T: Serialize + DeserializeOwned>(
    path: &str,
    settings: Config,
    defaults: &T,
) -> Result<T> {
    let Value::Object(defaults) = serde_json::to_value(defaults).map_err(Error::other)? else {
        return Err(Error::config(path, "no object", "settings are objects"));
    };
    // Objects such as mutations and nested schedulers may have any keys.
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
