//! Settings of environments (`env_config`) and their decoding.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// Settings of an environment by name, the `env_config` of a trainer.
pub type EnvConfig = Map<String, Value>;

/// Decodes settings of type `C`: the default of `C` with the values of `config` in place of its own.
pub(crate) fn decode_config<C>(env: &str, config: &EnvConfig) -> Result<C>
where
    C: Default + serde::Serialize + DeserializeOwned,
{
    let refuse = |message: String| Error::Config { env: env.into(), message };
    let default = serde_json::to_value(C::default()).map_err(|error| refuse(error.to_string()))?;
    let Value::Object(mut settings) = default else {
        return Err(refuse("the settings type is not a struct with named fields".into()));
    };
    for (key, value) in config {
        match settings.get_mut(key) {
            Some(slot) => *slot = value.clone(),
            None => {
                return Err(Error::UnknownSetting {
                    env: env.into(),
                    key: key.clone(),
                    hint: known_keys(key, &settings),
                });
            }
        }
    }
    serde_json::from_value(Value::Object(settings)).map_err(|error| {
        let given = Value::Object(config.clone());
        refuse(format!("{given} does not fit: {error}"))
    })
}

fn known_keys(key: &str, settings: &EnvConfig) -> String {
    let known: Vec<&str> = settings.keys().map(String::as_str).collect();
    match crate::registry::nearest::nearest(key, known.iter().copied()) {
        Some(near) => format!("nearest: `{near}`"),
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("it has {}", known.join(", ")),
    }
}
