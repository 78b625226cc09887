//! Settings: lays layers over defaults, remembers the origin of every key, and decodes the result into a struct.
//!
//! `defaults < preset < file < environment < --set` is one call of [`overlay`]. Code behind [`decode`] sees neither
//! strings nor JSON.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::base::{Config, Error, Result};

/// A JSON object.
type Object = Map<String, Value>;

/// Maximum size of a settings file in bytes (64 MiB); settings are written by people, so a larger file is a mistake.
const LARGEST_SETTINGS: u64 = 1 << 26;

/// Reads the text of a settings file.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be read, is not UTF-8 text, or is larger than 64 MiB.
pub fn read_settings(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST_SETTINGS + 1).read_to_string(&mut text));
    match read.map_err(Error::io("read", path))? as u64 {
        0..=LARGEST_SETTINGS => Ok(text),
        _ => {
            let reason = format!("it has more than {LARGEST_SETTINGS} bytes, so it is no file with settings");
            Err(Error::io("read", path)(io::Error::other(reason)))
        }
    }
}

/// Parses settings in TOML; `origin` names their source in error messages.
///
/// # Errors
/// Returns [`Error::Config`] if the text is not TOML, or if a value is `nan` or `inf`, which no setting can be.
pub fn parse_toml(text: &str, origin: &str) -> Result<Config> {
    let table: toml::Table = toml::from_str(text)
        .map_err(|error| Error::config(origin, "not readable", format!("it must be TOML: {error}")))?;
    if let Some((key, value)) = table.iter().find_map(|(key, value)| not_finite(key, value)) {
        return Err(Error::config(key, value, format!("it must be a finite number ({origin})")));
    }
    toml::from_str(text)
        .map_err(|error| Error::config(origin, "not readable", format!("it must be settings: {error}")))
}

/// Returns the first `nan` or infinite number in `value` with its dotted key.
fn not_finite(key: &str, value: &toml::Value) -> Option<(String, f64)> {
    match value {
        toml::Value::Float(number) if !number.is_finite() => Some((key.into(), *number)),
        toml::Value::Array(values) => values.iter().find_map(|value| not_finite(key, value)),
        toml::Value::Table(table) => {
            table.iter().find_map(|(name, value)| not_finite(&format!("{key}.{name}"), value))
        }
        _ => None,
    }
}

/// Settings from one source, to be laid over others.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Name of the source, shown in errors and by [`Resolved::origins`]: a file name, `--set`, `preset cartpole-ppo`.
    pub origin: String,
    /// Settings that this layer changes, and no others.
    pub values: Config,
}

/// Complete settings, with the origin of every value.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Defaults with every layer applied.
    pub config: Config,
    /// Maps the dotted key of every value that is not an object to the origin of the layer that set it, or to
    /// `"default"`.
    pub origins: BTreeMap<String, String>,
}

/// Applies `layers` to `defaults` in order; a later layer overrides an earlier one.
///
/// Objects are merged key by key; any other value, lists included, is replaced. Only keys that `defaults` has are
/// known, except below the dotted keys in `open` (e.g. `env_config`), where any key may appear. If a layer changes the
/// `type` of an object, the object is replaced as a whole, since settings of the old type mean nothing to the new one.
/// Value types are not checked here but by [`decode`].
///
/// # Errors
/// Returns [`Error::UnknownKey`] if a layer has an unknown key, and [`Error::Refusals`] with one error per key if there
/// are several.
pub fn overlay(defaults: &Map<String, Value>, layers: Vec<Layer>, open: &[&str]) -> Result<Resolved> {
    let (resolved, unknown) = overlay_what_is_known(defaults, layers, open, &[]);
    unknown.map(|()| resolved)
}

/// Applies the known settings like [`overlay`] and returns them beside the errors for unknown keys, so that the caller
/// can report all mistakes at once. `kept` lists dotted keys that mean the same to every `type` of their
/// object: a layer that changes the type leaves their values as they were.
pub fn overlay_what_is_known(
    defaults: &Map<String, Value>,
    layers: Vec<Layer>,
    open: &[&str],
    kept: &[&str],
) -> (Resolved, Result<()>) {
    let mut config = Config::from(defaults.clone());
    let mut origins = BTreeMap::new();
    let mut unknown = Vec::new();
    record(&mut origins, "", &Value::Object(defaults.clone()), "default");
    for layer in layers {
        let origin = &layer.origin;
        let origins = &mut origins;
        let unknown = &mut unknown;
        Merge { defaults, origin, origins, unknown, open, kept }.object(&mut config, layer.values.into(), "");
    }
    (Resolved { config, origins }, Error::all(unknown))
}

/// State of one [`overlay`] call while one layer is applied.
struct Merge<'a> {
    defaults: &'a Object,
    origin: &'a str,
    origins: &'a mut BTreeMap<String, String>,
    unknown: &'a mut Vec<Error>,
    open: &'a [&'a str],
    kept: &'a [&'a str],
}

impl Merge<'_> {
    /// Merges `values` into `base`, the object at the dotted key `prefix`.
    fn object(&mut self, base: &mut Object, values: Object, prefix: &str) {
        let open = self.open.iter().any(|open| is_under(prefix, open));
        for (name, value) in values {
            let key = join(prefix, &name);
            if !open && !base.contains_key(&name) {
                let error = self.unknown(key, &name, base, prefix);
                self.unknown.push(error);
                continue;
            }
            match (base.get_mut(&name), value) {
                (Some(Value::Object(inner)), Value::Object(values)) if !changes_type(inner, &values) => {
                    self.object(inner, values, &key);
                }
                (old, mut value) => {
                    let stayed = old.map_or_else(Vec::new, |old| self.stayed(&key, old, &mut value));
                    self.origins.retain(|known, _| !is_under(known, &key));
                    record(self.origins, &key, &value, self.origin);
                    self.origins.extend(stayed);
                    base.insert(name, value);
                }
            }
        }
    }

    /// Copies settings that stay from `old`, the object at the dotted key `key`, to the object of another type in its place.
    /// Returns their origins.
    fn stayed(&self, key: &str, old: &Value, new: &mut Value) -> Vec<(String, String)> {
        let (Value::Object(old), Value::Object(new)) = (old, new) else { return Vec::new() };
        let mut origins = Vec::new();
        for dotted in self.kept {
            let Some(name) = dotted.strip_prefix(key).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            let Some(value) = old.get(name).filter(|_| !new.contains_key(name)) else { continue };
            new.insert(name.to_string(), value.clone());
            let origin = self.origins.get(*dotted).map(|origin| ((*dotted).to_string(), origin.clone()));
            origins.extend(origin);
        }
        origins
    }

    /// Makes the error for an unknown key. Its hint is the same name deeper in the defaults, or else the most similar
    /// name on the same level.
    fn unknown(&self, key: String, name: &str, base: &Object, prefix: &str) -> Error {
        let known: Vec<String> = base.keys().map(|name| join(prefix, name)).collect();
        let elsewhere = paths(self.defaults, "").into_iter().find(|path| path.ends_with(&format!(".{name}")));
        let nearest = elsewhere
            .or_else(|| nearest(name, base.keys().map(String::as_str)).map(|near| join(prefix, near)));
        Error::UnknownKey { key, origin: self.origin.to_string(), nearest, known }
    }
}

/// Whether both objects have a `type` and the two differ.
fn changes_type(base: &Object, values: &Object) -> bool {
    matches!((base.get("type"), values.get("type")), (Some(old), Some(new)) if old != new)
}

/// Appends `name` to the dotted key `prefix`.
fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") }
}

/// Whether the dotted key `key` equals `top` or lies below it.
fn is_under(key: &str, top: &str) -> bool {
    key.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Records `origin` in `origins` for every value at or below `key`; an empty object counts as a value.
fn record(origins: &mut BTreeMap<String, String>, key: &str, value: &Value, origin: &str) {
    match value {
        Value::Object(inner) if !inner.is_empty() => {
            inner.iter().for_each(|(name, value)| record(origins, &join(key, name), value, origin));
        }
        _ if key.is_empty() => {}
        _ => {
            origins.insert(key.to_string(), origin.to_string());
        }
    }
}

/// Lists the dotted keys of everything in `config`, objects included.
fn paths(config: &Object, prefix: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (name, value) in config {
        let key = join(prefix, name);
        if let Value::Object(inner) = value {
            all.extend(paths(inner, &key));
        }
        all.push(key);
    }
    all
}

/// Returns at most five of the candidates that are within three edits of `word`, or have it as one of their words, the most
/// similar first.
pub fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let rank = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let edits = strsim::damerau_levenshtein(&word, &candidate);
        // Three edits turn any short word into any other.
        let allowed = (word.chars().count() / 2).min(3);
        let is_part = candidate.split(['_', '.', '-']).any(|part| part == word);
        (edits <= allowed).then_some(edits).or(is_part.then_some(4))
    };
    let mut found: Vec<(usize, &str)> =
        candidates.into_iter().filter_map(|candidate| Some((rank(candidate)?, candidate))).collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().take(5).map(|(_, candidate)| candidate).collect()
}

/// Returns the candidate most similar to `word` by Damerau-Levenshtein distance, if at most a third of the letters
/// differ.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let allowed = word.chars().count().max(candidate.chars().count()).max(3) / 3;
            (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), allowed, candidate)
        })
        .filter(|(distance, allowed, _)| distance <= allowed)
        .min_by_key(|(distance, _, _)| *distance)
        .map(|(_, _, candidate)| candidate)
}

/// Deserializes settings into their struct.
///
/// # Errors
/// Returns [`Error::Config`] with the dotted key and the value if a value does not fit or is not a setting, and
/// [`Error::Missing`] if one is missing.
pub fn decode<T: DeserializeOwned>(config: &Map<String, Value>) -> Result<T> {
    let value = Value::Object(config.clone());
    serde_path_to_error::deserialize(&value).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string();
        if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            let key = if path == "." { field.to_string() } else { join(&path, field) };
            return Error::missing(key, "it has no default, so give it a value");
        }
        if let Some((field, rule)) = message.strip_prefix(AT).and_then(|rest| rest.split_once("`: ")) {
            let key = if path == "." { field.to_string() } else { join(&path, field) };
            let value = find(error.path(), &value).and_then(|value| value.get(field));
            return Error::config(key, value.unwrap_or(&Value::Null), rule);
        }
        let unknown =
            message.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, expected "));
        let rule = match (unknown, message.split_once(", expected ")) {
            (Some((field, known)), _) => format!("there is no setting `{field}` in it; expected {known}"),
            (None, Some((_, expected))) => format!("it must be {}", in_words(expected)),
            (None, None) => message,
        };
        Error::config(path, find(error.path(), &value).unwrap_or(&Value::Null), rule)
    })
}

/// Returns the value at `path`; `None` if there is none.
fn find<'a>(path: &serde_path_to_error::Path, value: &'a Value) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        serde_path_to_error::Segment::Map { key } => value.get(key),
        serde_path_to_error::Segment::Seq { index } => value.get(index),
        _ => None,
    })
}

/// Prefix of error messages that name their key themselves, because serde does not know the paths of flattened settings.
const AT: &str = "at `";

/// Makes an error message for serde about the setting `key`; [`decode`] turns the message into [`Error::Config`].
pub(crate) fn at(key: &str, rule: &str) -> String {
    format!("{AT}{key}`: {rule}")
}

/// Translates the type that serde expected into words for readers who do not know Rust.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        other => {
            if other.starts_with("struct ") {
                "an object with settings"
            } else {
                other
            }
        }
    }
}

/// Parses `key=value` into the parts of the dotted key and the value.
///
/// The value is TOML (`3e-4`, `true`, `[64, 64]`, `"text"`) or `null`; anything else is taken as a string.
///
/// # Errors
/// Returns [`Error::Assignment`] if there is no `=`, if a part of the key is empty, or if the value is a number that
/// JSON lacks (`nan`, `inf`).
pub fn parse_assignment(text: &str) -> Result<(Vec<String>, Value)> {
    let refuse = |rule: &str| Error::Assignment { text: text.to_string(), rule: rule.to_string() };
    let (key, value) = text.split_once('=').ok_or_else(|| refuse("write it as key=value, e.g. lr=3e-4"))?;
    let path: Vec<String> = key.split('.').map(|name| name.trim().to_string()).collect();
    if path.iter().any(String::is_empty) {
        return Err(refuse("a key must not be empty; nested ones are written model.fcnet_hiddens=[64, 64]"));
    }
    let value = value.trim();
    if value == "null" {
        return Ok((path, Value::Null));
    }
    let value = match value.parse::<toml::Value>() {
        Ok(parsed) => from_toml(parsed).ok_or_else(|| refuse("settings cannot be nan or inf"))?,
        // Objects and lists as JSON writes them are no TOML: `{"g": 9.81}`.
        Err(_) if value.starts_with(['{', '[']) => {
            serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_string()))
        }
        Err(_) => Value::String(value.to_string()),
    };
    Ok((path, value))
}

/// Converts a TOML value to JSON; `None` if it contains `nan` or `inf`, which JSON lacks.
fn from_toml(value: toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => Value::Number(serde_json::Number::from_f64(number)?),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(moment) => Value::String(moment.to_string()),
        toml::Value::Array(items) => Value::Array(items.into_iter().map(from_toml).collect::<Option<_>>()?),
        toml::Value::Table(table) => Value::Object(
            table.into_iter().map(|(key, value)| Some((key, from_toml(value)?))).collect::<Option<_>>()?,
        ),
    })
}

/// Sets the value at a nested key; missing parents become objects, and a parent that is not an object is replaced by
/// one.
pub fn assign(config: &mut Map<String, Value>, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut level = config;
    for name in parents {
        let slot = level.entry(name.as_str()).or_insert(Value::Null);
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        level = slot.as_object_mut().expect("just made an object");
    }
    level.insert(last.clone(), value);
}
