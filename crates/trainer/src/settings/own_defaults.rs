//! [`own_defaults!`](crate::own_defaults): settings of an algorithm that are left out get the algorithm's own defaults.

use crate::settings::{Common, KEPT_KEYS, OPEN_KEYS, OffPolicy, synonym};
use pavlov_tune::Config;
use pavlov_tune::config::nearest;
use serde::{
    Serialize,
    de::{DeserializeSeed, Error, IntoDeserializer, MapAccess},
};
use serde_json::{Map, Value};

/// Implements `Serialize` and `Deserialize` for the settings of an algorithm, whose struct derives both under
/// `#[serde(default, remote = "Self")]`. Settings that are left out have their value in the struct's own `Default`,
/// those in [`Common`] and [`OffPolicy`] too; `#[serde(flatten)]` alone would take the defaults of those two types
/// instead. A key that is no setting is an error.
///
/// ```
/// use pavlov_trainer::{own_defaults, prelude::*};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// #[serde(default, remote = "Self")]
/// struct Patient {
///     #[serde(flatten)]
///     common: Common,
///     lr: f64,
/// }
///
/// impl Default for Patient {
///     fn default() -> Self {
///         Self { common: Common { gamma: 0.999, ..Common::default() }, lr: 0.1 }
///     }
/// }
///
/// own_defaults!(Patient);
///
/// let patient: Patient = serde_json::from_str(r#"{"lr": 0.2}"#).unwrap();
/// assert_eq!((patient.lr, patient.common.gamma), (0.2, 0.999));
/// assert!(serde_json::from_str::<Patient>(r#"{"learning_rate": 0.2}"#).is_err());
/// ```
#[macro_export]
macro_rules! own_defaults {
    ($settings:ty) => {
        impl ::serde::Serialize for $settings {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                <$settings>::serialize(self, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $settings {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                struct Read;

                impl<'de> ::serde::de::Visitor<'de> for Read {
                    type Value = $settings;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("an object with settings")
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        map: A,
                    ) -> ::core::result::Result<$settings, A::Error> {
                        let all = $crate::settings::OverDefaults::new(map, &<$settings>::default())?;
                        <$settings>::deserialize(::serde::de::value::MapAccessDeserializer::new(all))
                    }
                }

                deserializer.deserialize_map(Read)
            }
        }
    };
}

/// A deserializer of the given settings, followed by the defaults of all settings that are not given.
#[derive(Debug)]
pub struct OverDefaults<A> {
    /// The settings that are given.
    given: A,
    /// Defaults of all settings.
    all: Config,
    /// Defaults of the settings that were not read so far.
    defaults: Config,
    /// The settings of [`Common`] and [`OffPolicy`]: an object given for one of them is merged into its default. An
    /// object given for another setting takes missing values from its own type.
    shared: Config,
    /// Default of the setting whose value is read next; `None` if it has no default.
    default: Option<Value>,
    /// Key of the setting whose value is read next.
    key: String,
    /// Whether all given settings were read.
    given_ended: bool,
}

impl<A> OverDefaults<A> {
    /// Makes a deserializer of the settings `given`, and of those in `defaults` that are not given.
    ///
    /// # Errors
    /// Fails if serde does not write `defaults` as an object.
    pub fn new<'de>(given: A, defaults: &impl Serialize) -> Result<Self, A::Error>
    where
        A: MapAccess<'de>,
    {
        let mut shared = written(&Common::default())?;
        shared.extend(written(&OffPolicy::default())?);
        let defaults = written(defaults)?;
        let all = defaults.clone();
        Ok(Self { given, all, defaults, shared, default: None, key: String::new(), given_ended: false })
    }
}

/// Writes settings as an object.
fn written<E: Error>(settings: &impl Serialize) -> Result<Config, E> {
    match serde_json::to_value(settings).map_err(E::custom)? {
        Value::Object(config) => Ok(config.into()),
        other => Err(E::custom(format_args!("settings must be written as an object, not as {other}"))),
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OverDefaults<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        if !self.given_ended {
            if let Some(key) = self.given.next_key::<String>()? {
                if !self.all.contains_key(&key) {
                    return Err(A::Error::custom(unknown(&key, &key, &self.all, synonym(&key, &self.all))));
                }
                self.default = self.defaults.shift_remove(&key);
                if self.default.is_none() {
                    return Err(A::Error::custom(format_args!("the setting `{key}` is given twice")));
                }
                self.key.clone_from(&key);
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            self.given_ended = true;
        }
        let Some(key) = self.defaults.keys().next().cloned() else { return Ok(None) };
        self.default = self.defaults.shift_remove(&key);
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        let value = match self.default.take() {
            Some(default) if self.given_ended => default,
            Some(default @ Value::Object(_)) if self.shared.contains_key(&self.key) => {
                laid_over(&self.key, default, self.given.next_value()?).map_err(A::Error::custom)?
            }
            _ => return self.given.next_value_seed(seed),
        };
        seed.deserialize(value).map_err(A::Error::custom)
    }
}

/// The error message for the key `name` at the dotted `path` that is not among the settings `known`.
fn unknown(path: &str, name: &str, known: &Map<String, Value>, elsewhere: Option<&str>) -> String {
    let near = || nearest(name, known.keys().map(String::as_str));
    match (elsewhere, near()) {
        (Some(here), _) => format!("there is no setting `{path}`; its name here is `{here}`"),
        (None, Some(near)) => format!("there is no setting `{path}`; `{near}` may be meant"),
        (None, None) => format!("there is no setting `{path}`"),
    }
}

/// Merges a given object into its default key by key, as layers of settings files are merged. Values that are no
/// objects replace their default, and so do objects of another `type` and objects whose keys are the user's own
/// ([`OPEN_KEYS`]). An object of another `type` keeps the [`KEPT_KEYS`] of its default. `path` is the dotted name of the setting.
///
/// # Errors
/// Returns a message if a key is no setting.
fn laid_over(path: &str, default: Value, given: Value) -> Result<Value, String> {
    match (default, given) {
        (_, given) if OPEN_KEYS.contains(&path) => Ok(given),
        (Value::Object(mut all), Value::Object(mut given)) => {
            let changes_type =
                given.get("type").is_some_and(|kind| all.get("type").is_some_and(|old| old != kind));
            if changes_type {
                for (name, value) in all {
                    if KEPT_KEYS.contains(&format!("{path}.{name}").as_str()) {
                        given.entry(name).or_insert(value);
                    }
                }
                return Ok(Value::Object(given));
            }
            for (key, value) in given {
                let path = format!("{path}.{key}");
                let Some(default) = all.get_mut(&key) else { return Err(unknown(&path, &key, &all, None)) };
                *default = laid_over(&path, default.take(), value)?;
            }
            Ok(Value::Object(all))
        }
        (_, given) => Ok(given),
    }
}
