//! An algorithm's settings as JSON, and other settings laid over them.

use crate::{
    base::error::{Error, Result},
    replay::OffPolicy,
    run::{
        common::{Common, OPEN_KEYS, REFUSED_KEYS},
        synonyms::translate,
        trainer::Trainer,
    },
};
use pavlov_envs::EnvCreator;
use pavlov_tune::{
    Config,
    config::{Layer, decode, overlay},
};
use serde_json::Value;

/// Settings with `config` laid over them; `env` in it replaces the environment.
///
/// # Errors
/// A key that does not exist, with the nearest; a value of the wrong kind; an environment that does not exist.
pub fn resolve<T: Trainer>(base: &T, config: &Config, env: &EnvCreator) -> Result<(T, EnvCreator)> {
    let mut config = config.clone();
    let env = match config.shift_remove("env") {
        None | Some(Value::Null) => env.clone(),
        Some(Value::String(id)) if id == env.name() => env.clone(),
        Some(Value::String(id)) => EnvCreator::from(id),
        Some(other) => return Err(Error::config("env", other, "it must be the id of an environment")),
    };
    let defaults = to_config(base)?;
    translate(&mut config, &defaults, &[REFUSED_KEYS, T::REFUSED_KEYS])?;
    let layer = Layer { origin: "config".into(), values: config };
    let resolved = overlay(&defaults, vec![layer], OPEN_KEYS)?;
    // serde's `flatten` forgets where it was: an error in a common setting names its key only when read alone.
    decode::<Common>(&resolved.config)?;
    decode::<OffPolicy>(&resolved.config)?;
    Ok((decode(&resolved.config)?, env))
}

/// Settings as a JSON object.
///
/// # Errors
/// Settings that JSON cannot hold.
pub fn to_config<T: Trainer>(settings: &T) -> Result<Config> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(config)) => Ok(config),
        Ok(other) => {
            Err(Error::state(T::NAME, format!("its settings are written as {other}, not as an object")))
        }
        Err(error) => Err(Error::state(T::NAME, error.to_string())),
    }
}
