//! An algorithm's settings as JSON, and their overrides by other settings.

use crate::run::memory::Memory;
use crate::run::trainer::Trainer;
use crate::settings::{Common, KEPT_KEYS, OPEN_KEYS, OffPolicy, translate, translate_input};
use pavlov_envs::EnvCreator;
use pavlov_learn::base::{Error, Result, Spaces, catch, rules};
use pavlov_tune as tune;
use pavlov_tune::Config;
use pavlov_tune::config::{Layer, Resolved, decode, overlay_what_is_known};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns the settings `base` overridden by `config`, and the environment: that of the key `env` in `config`, or
/// else `env`.
///
/// # Errors
/// Fails whenever [`overlay_known`] does. Returns [`Error::Config`] if `env` is not a string. An unknown id fails
/// only when environments are made.
pub fn resolve<T: Trainer>(base: &T, config: &Config, env: &EnvCreator) -> Result<(T, EnvCreator)> {
    let mut config = config.clone();
    translate_input(&mut config)?;
    let env = match config.shift_remove("env") {
        None | Some(Value::Null) => env.clone(),
        Some(Value::String(id)) if id == env.name() => env.clone(),
        Some(Value::String(id)) => EnvCreator::from(id),
        Some(other) => return Err(Error::config("env", other, "it must be the id of an environment")),
    };
    let layer = Layer { origin: "config".into(), values: config };
    let resolved = overlay_known::<T>(&to_config(base)?, vec![layer])?;
    let mut settings: T = decode(&resolved.config)?;
    settings.common_mut().settle_workers();
    Ok((settings, env))
}

/// The default settings of `T`, overridden by `config`; `origin` names the source of these in errors.
///
/// # Errors
/// Fails whenever [`overlay_known`] does. Returns [`Error::Config`] if `config` names an environment.
pub(crate) fn from_defaults<T: Trainer>(mut config: Config, origin: &str) -> Result<T> {
    translate_input(&mut config)?;
    if let Some(env) = config.get("env") {
        return Err(Error::config(
            "env",
            env,
            "it is no setting of the algorithm: give it to `build`, and leave it out",
        ));
    }
    let layer = Layer { origin: origin.into(), values: config };
    let resolved = overlay_known::<T>(&to_config(&T::get_default_config())?, vec![layer])?;
    let mut settings: T = decode(&resolved.config)?;
    settings.common_mut().settle_workers();
    Ok(settings)
}

/// Overrides `defaults` by `layers`; later layers override earlier ones.
///
/// # Errors
/// Fails if settings are unknown, are refused by the algorithm, have a value of the wrong type, or have no effect;
/// one error names all of them, as [`rules::all`] does.
pub fn overlay_known<T: Trainer>(defaults: &Config, layers: Vec<Layer>) -> Result<Resolved> {
    let (resolved, refused) = overlay_what_fits::<T>(defaults, layers);
    refused.map(|()| resolved)
}

/// Overrides `defaults` by `layers` as [`overlay_known`] does. Beside the error it returns the accepted settings, so
/// that their rules can be checked as well.
pub fn overlay_what_fits<T: Trainer>(defaults: &Config, mut layers: Vec<Layer>) -> (Resolved, Result<()>) {
    let mut checks = Vec::new();
    for layer in &mut layers {
        checks.push(translate(&mut layer.values, defaults, T::REFUSED_KEYS));
    }
    let origins: Vec<String> = layers.iter().map(|layer| layer.origin.clone()).collect();
    let (mut resolved, unknown) = overlay_what_is_known(defaults, layers, OPEN_KEYS, KEPT_KEYS);
    checks.push(unknown.map_err(Error::from));
    checks.push(refuse_replaced(&resolved, &origins));
    // serde's `flatten` loses the key: an error in a common setting names its key only when read alone.
    checks.push(kinds::<Common>(defaults, &mut resolved.config));
    checks.push(kinds::<OffPolicy>(defaults, &mut resolved.config));
    checks.push(kinds::<T>(defaults, &mut resolved.config));
    (resolved, rules::all(checks))
}

/// Returns an error for the settings of `T` whose values have the wrong type, and replaces these values by their
/// defaults.
fn kinds<T: DeserializeOwned>(defaults: &Config, config: &mut Config) -> Result<()> {
    let mut checks = Vec::new();
    while let Err(error) = decode::<T>(config) {
        let (tune::Error::Config { key, .. } | tune::Error::Missing { key, .. }) = &error else {
            return Err(error.into());
        };
        let top = key.split(['.', '[']).next().unwrap_or_default().to_owned();
        let known = defaults.get(&top).filter(|default| config.get(&top) != Some(default)).cloned();
        checks.push(Err(error.into()));
        match known {
            Some(default) => _ = config.insert(top, default),
            None => break,
        }
    }
    rules::all(checks)
}

/// Settings and the schedules that replace them, where the schedule is not named `x_schedule` for the setting `x`.
const SCHEDULED: [(&str, &str); 3] = [
    ("exploration_config.initial_epsilon", "exploration_config.epsilon_schedule"),
    ("exploration_config.final_epsilon", "exploration_config.epsilon_schedule"),
    ("exploration_config.epsilon_timesteps", "exploration_config.epsilon_schedule"),
];

/// Returns an error for a setting that has no effect because a schedule replaces it.
fn refuse_replaced(resolved: &Resolved, layers: &[String]) -> Result<()> {
    let rank = |key: &str| {
        let origin = resolved.origins.get(key)?;
        Some(layers.iter().rposition(|layer| layer == origin).map_or(0, |layer| layer + 1))
    };
    let at = |key: &str| {
        resolved.config.get(key).or_else(|| {
            let (outer, inner) = key.split_once('.')?;
            resolved.config.get(outer)?.get(inner)
        })
    };
    let by_name =
        resolved.origins.keys().filter_map(|key| Some((key.strip_suffix("_schedule")?, key.as_str())));
    rules::all(by_name.chain(SCHEDULED).map(|(key, schedule)| {
        let Some(value) = at(schedule).filter(|value| !value.is_null()) else { return Ok(()) };
        let rule = format!(
            "it has no effect: `{schedule}` is {value} and replaces it; set `{schedule}` to null as well, or leave \
             `{key}` out"
        );
        rules::refuse_if(rank(key) > rank(schedule), key, at(key).unwrap_or(&Value::Null), rule)
    }))
}

/// Checks the rules of the common settings and those of the algorithm, which may adjust its settings.
///
/// # Errors
/// Fails with the errors of all broken rules, as [`rules::all`] does. If the memory does not suffice, the algorithm's
/// rules are not checked.
pub fn validate<T: Trainer>(settings: &mut T, spaces: &Spaces) -> Result<()> {
    settings.common_mut().settle_workers();
    let common = settings.common().validate();
    // The memory is checked before the rules of the algorithm, because these may multiply sizes.
    if let Err(too_large) = memory_of(settings, spaces).check() {
        return rules::all([common, Err(too_large)]);
    }
    let own = catch(|| format!("the rules of {}", T::NAME), || settings.validate_config(spaces));
    match own {
        // The algorithm's rules may rely on the common rules.
        Err(Error::Panic { .. }) if common.is_err() => common,
        own => rules::all([common, own]),
    }
}

/// Returns the settings as a JSON object.
///
/// # Errors
/// Returns [`Error::State`] if serde does not write the settings as a JSON object.
pub fn to_config<T: Trainer>(settings: &T) -> Result<Config> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(config)) => Ok(config.into()),
        Ok(other) => {
            Err(Error::state(T::NAME, format!("its settings are written as {other}, not as an object")))
        }
        Err(error) => Err(Error::state(T::NAME, error.to_string())),
    }
}

/// The memory that a run with these settings needs, with the algorithm's own parts for every policy.
pub(crate) fn memory_of<T: Trainer>(settings: &T, spaces: &Spaces) -> Memory {
    let mut memory = Memory::of(settings.common(), spaces);
    // Every policy has a network and, where there is replay, a buffer.
    (0..settings.common().multiagent.policies.len().max(1))
        .for_each(|_| settings.memory(spaces, &mut memory));
    memory
}
