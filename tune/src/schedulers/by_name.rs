//! Schedulers as a sweep file names them: `{ type = "ASHA", grace_period = 5 }`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::resource_changing::{
    DistributeResources, DistributeResourcesToTopJob, ResourceAllocation, ResourceChangingScheduler,
};
use super::{
    AsyncHyperBandConfig, AsyncHyperBandScheduler, FifoScheduler, HyperBandConfig, HyperBandScheduler,
    MedianStoppingConfig, MedianStoppingRule, PbtConfig, PbtReplayConfig, PopulationBasedTraining,
    PopulationBasedTrainingReplay, TrialScheduler,
};
use crate::named::{Registry, settings_of, split, unknown_type};
use crate::{Config, Result};

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

/// One name of each kind.
const LISTED: [&str; 8] =
    ["FIFO", "ASHA", "HyperBand", "HB_BOHB", "MedianStopping", "PBT", "pbt_replay", "resource_changing"];

static REGISTERED: Registry<dyn TrialScheduler> = Registry::new();

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

/// Lets sweep files name a scheduler of yours: `make` gets its settings, without `type`, and the seed of the sweep.
///
/// A name that exists already then means yours. Upper and lower case are the same.
///
/// ```
/// use pavlov_tune::config::decode;
/// use pavlov_tune::schedulers::{self, MedianStoppingConfig, MedianStoppingRule};
///
/// schedulers::register("Patient", |settings, _seed| {
///     let settings = MedianStoppingConfig { grace_period: 100.0, ..decode(settings)? };
///     Ok(Box::new(MedianStoppingRule::new(settings)?))
/// });
/// // In the sweep file:
/// // [scheduler]
/// // type = "Patient"
/// ```
pub fn register(
    name: &str,
    make: impl Fn(&Config, u64) -> Result<Box<dyn TrialScheduler>> + Send + Sync + 'static,
) {
    REGISTERED.register(name, Arc::new(make));
}

/// The scheduler that `config` describes: its name under `type`, and its settings over their defaults. `seed` is for
/// schedulers that are given none. The names are those of this module and those that the program [registered](register).
///
/// # Errors
/// Returns [`Error::Config`](crate::Error::Config) if `type` is missing or unknown, or if a setting has the wrong kind
/// or is out of range, and [`Error::UnknownKey`](crate::Error::UnknownKey) if the scheduler has no such setting; both
/// name the nearest. Returns [`Error::Io`](crate::Error::Io) if a `policy_file` cannot be read, and what a registered
/// function returns.
pub fn from_config(config: &Config, seed: u64) -> Result<Box<dyn TrialScheduler>> {
    build("scheduler", config, seed)
}

fn build(path: &str, config: &Config, seed: u64) -> Result<Box<dyn TrialScheduler>> {
    let (name, settings) = split(path, config)?;
    if let Some(make) = REGISTERED.find(name) {
        return make(&settings, seed);
    }
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, kind)) = known else {
        let names = NAMES.iter().map(|(known, _)| *known);
        return Err(unknown_type(path, name, names, &LISTED, &REGISTERED.names()));
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
            Box::new(HyperBandScheduler::for_bohb(settings_of(path, settings, &HyperBandConfig::default())?)?)
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
            Err(unknown_type(&path, name, names, &names, &[]))
        }
    }
}
