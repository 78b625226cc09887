//! Schedulers as a sweep file names them: `{ type = "ASHA", grace_period = 5 }`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::resource_changing::{
    DistributeResources, DistributeResourcesToTopJob, ResourceAllocation, ResourceChangingScheduler,
};
use super::{
    AsyncHyperBandConfig, AsyncHyperBandScheduler, FifoScheduler, HyperBandConfig, HyperBandForBohb,
    HyperBandScheduler, MedianStoppingConfig, MedianStoppingRule, PbtConfig, PbtReplayConfig,
    PopulationBasedTraining, PopulationBasedTrainingReplay, TrialScheduler,
};
use crate::config::{Layer, decode, nearest, overlay};
use crate::{Config, Error, Result};

/// Every name of a scheduler, Ray's short ones included; upper and lower case are the same.
const NAMES: [(&str, Kind); 19] = [
    ("FIFO", Kind::Fifo),
    ("FIFOScheduler", Kind::Fifo),
    ("ASHA", Kind::AsyncHyperBand),
    ("ASHAScheduler", Kind::AsyncHyperBand),
    ("AsyncHyperBand", Kind::AsyncHyperBand),
    ("async_hyperband", Kind::AsyncHyperBand),
    ("AsyncHyperBandScheduler", Kind::AsyncHyperBand),
    ("HyperBand", Kind::HyperBand),
    ("HyperBandScheduler", Kind::HyperBand),
    ("HB_BOHB", Kind::HyperBandForBohb),
    ("HyperBandForBOHB", Kind::HyperBandForBohb),
    ("MedianStopping", Kind::MedianStopping),
    ("median_stopping_rule", Kind::MedianStopping),
    ("MedianStoppingRule", Kind::MedianStopping),
    ("PBT", Kind::Pbt),
    ("PopulationBasedTraining", Kind::Pbt),
    ("pbt_replay", Kind::PbtReplay),
    ("PopulationBasedTrainingReplay", Kind::PbtReplay),
    ("resource_changing", Kind::ResourceChanging),
];

#[derive(Clone, Copy)]
enum Kind {
    Fifo,
    AsyncHyperBand,
    HyperBand,
    HyperBandForBohb,
    MedianStopping,
    Pbt,
    PbtReplay,
    ResourceChanging,
}

/// The scheduler that `config` describes: its name under `type`, and its settings over their defaults. `seed` is for
/// schedulers that are given none.
///
/// # Errors
/// An unknown name or setting, with the nearest; a setting of the wrong kind or out of range.
pub fn from_config(config: &Config, seed: u64) -> Result<Box<dyn TrialScheduler>> {
    build("scheduler", config, seed)
}

fn build(path: &str, config: &Config, seed: u64) -> Result<Box<dyn TrialScheduler>> {
    let (name, settings) = split(path, config)?;
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, kind)) = known else {
        let names = NAMES.iter().map(|(known, _)| *known);
        let all = "FIFO, ASHA, HyperBand, HB_BOHB, MedianStopping, PBT, pbt_replay, resource_changing";
        return Err(unknown_type(path, name, names, all));
    };
    Ok(match kind {
        Kind::Fifo => {
            settings_of(path, settings, &Empty {})?;
            Box::new(FifoScheduler)
        }
        Kind::AsyncHyperBand => {
            let defaults = AsyncHyperBandConfig { seed, ..Default::default() };
            Box::new(AsyncHyperBandScheduler::new(settings_of(path, settings, &defaults)?)?)
        }
        Kind::HyperBand => {
            Box::new(HyperBandScheduler::new(settings_of(path, settings, &HyperBandConfig::default())?)?)
        }
        Kind::HyperBandForBohb => {
            Box::new(HyperBandForBohb::new(settings_of(path, settings, &HyperBandConfig::default())?)?)
        }
        Kind::MedianStopping => {
            let defaults = MedianStoppingConfig::default();
            Box::new(MedianStoppingRule::new(settings_of(path, settings, &defaults)?)?)
        }
        Kind::Pbt => {
            let defaults = PbtConfig { seed, ..Default::default() };
            Box::new(PopulationBasedTraining::new(settings_of(path, settings, &defaults)?)?)
        }
        Kind::PbtReplay => {
            let config: PbtReplayConfig = settings_of(path, settings, &PbtReplayConfig::default())?;
            Box::new(PopulationBasedTrainingReplay::new(config)?)
        }
        Kind::ResourceChanging => resource_changing(path, settings, seed)?,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

/// Settings of [`ResourceChangingScheduler`] in a file: both have a `type` of their own.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceChanging {
    base_scheduler: Config,
    resources_allocation_function: Config,
}

fn resource_changing(path: &str, settings: Config, seed: u64) -> Result<Box<dyn TrialScheduler>> {
    let parts: ResourceChanging = settings_of(path, settings, &ResourceChanging::default())?;
    let base = match parts.base_scheduler.is_empty() {
        true => Box::new(FifoScheduler),
        false => build(&format!("{path}.base_scheduler"), &parts.base_scheduler, seed)?,
    };
    let scheduler = |allocation: Box<dyn ResourceAllocation>| {
        Box::new(ResourceChangingScheduler::new(base, allocation)) as Box<dyn TrialScheduler>
    };
    let function = &parts.resources_allocation_function;
    if function.is_empty() {
        return Ok(scheduler(Box::<DistributeResources>::default()));
    }
    let path = format!("{path}.resources_allocation_function");
    let (name, settings) = split(&path, function)?;
    match name {
        "DistributeResources" => {
            let defaults = DistributeResources::default();
            Ok(scheduler(Box::new(settings_of(&path, settings, &defaults)?)))
        }
        "DistributeResourcesToTopJob" => {
            let defaults = DistributeResourcesToTopJob::default();
            Ok(scheduler(Box::new(settings_of(&path, settings, &defaults)?)))
        }
        _ => {
            let names = ["DistributeResources", "DistributeResourcesToTopJob"];
            Err(unknown_type(&path, name, names, &names.join(", ")))
        }
    }
}

/// The `type`, and the rest.
fn split<'a>(path: &str, config: &'a Config) -> Result<(&'a str, Config)> {
    let key = format!("{path}.type");
    let rule = "it must be a name";
    let name = config.get("type").ok_or_else(|| Error::config(&key, "missing", rule))?;
    let name = name.as_str().ok_or_else(|| Error::config(&key, name, rule))?;
    let settings = config.iter().filter(|(key, _)| *key != "type");
    Ok((name, settings.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

fn unknown_type<'a>(path: &str, name: &str, names: impl IntoIterator<Item = &'a str>, all: &str) -> Error {
    let way_out = match nearest(name, names) {
        Some(near) => format!("there is no such one; nearest: {near}"),
        None => format!("it must be one of {all}"),
    };
    Error::config(format!("{path}.type"), format!("{name:?}"), way_out)
}

/// `settings` laid over `defaults`, decoded.
fn settings_of<T: Serialize + DeserializeOwned>(path: &str, settings: Config, defaults: &T) -> Result<T> {
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
        Error::Config { key, value, rule } => Error::Config { key: format!("{path}.{key}"), value, rule },
        error => error,
    };
    decode(&overlay(&defaults, vec![layer], &open).map_err(below)?.config).map_err(below)
}
