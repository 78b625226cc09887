//! Makes the schedulers that a sweep file names: `{ type = "ASHA", grace_period = 5 }`.

use serde::{Deserialize, Serialize};

use super::resource_changing::{
    DistributeResources, DistributeResourcesToTopJob, ResourceAllocation, ResourceChangingScheduler,
};
use super::{
    AsyncHyperBandConfig, AsyncHyperBandScheduler, FifoScheduler, HyperBandConfig, HyperBandScheduler,
    MedianStoppingConfig, MedianStoppingRule, PbtConfig, PbtReplayConfig, PopulationBasedTraining,
    PopulationBasedTrainingReplay, TrialScheduler,
};
use crate::base::named::{Entry, Registry, settings_of};
use crate::base::{Config, Result};

/// Every scheduler with its names, Ray's short ones included.
static REGISTRY: Registry<dyn TrialScheduler> = Registry::new("scheduler", ENTRIES);

const ENTRIES: &[Entry<dyn TrialScheduler>] = &[
    Entry {
        names: &["FIFO", "FIFOScheduler"],
        make: |path, settings, _| {
            settings_of(path, settings, &Empty {})?;
            Ok(Box::new(FifoScheduler))
        },
    },
    Entry {
        names: &["ASHA", "ASHAScheduler", "AsyncHyperBand", "async_hyperband", "AsyncHyperBandScheduler"],
        make: |path, settings, seed| {
            let defaults = AsyncHyperBandConfig { seed, ..Default::default() };
            Ok(Box::new(AsyncHyperBandScheduler::new(settings_of(path, settings, &defaults)?)?))
        },
    },
    Entry {
        names: &["HyperBand", "HyperBandScheduler"],
        make: |path, settings, _| {
            let config = settings_of(path, settings, &HyperBandConfig::default())?;
            Ok(Box::new(HyperBandScheduler::new(config)?))
        },
    },
    Entry {
        names: &["HB_BOHB", "HyperBandForBOHB"],
        make: |path, settings, _| {
            let config = settings_of(path, settings, &HyperBandConfig::default())?;
            Ok(Box::new(HyperBandScheduler::for_bohb(config)?))
        },
    },
    Entry {
        names: &["MedianStopping", "median_stopping_rule", "MedianStoppingRule"],
        make: |path, settings, _| {
            let config = settings_of(path, settings, &MedianStoppingConfig::default())?;
            Ok(Box::new(MedianStoppingRule::new(config)?))
        },
    },
    Entry {
        names: &["PBT", "PopulationBasedTraining"],
        make: |path, settings, seed| {
            let defaults = PbtConfig { seed, ..Default::default() };
            Ok(Box::new(PopulationBasedTraining::new(settings_of(path, settings, &defaults)?)?))
        },
    },
    Entry {
        names: &["pbt_replay", "PopulationBasedTrainingReplay"],
        make: |path, settings, _| {
            let config = settings_of(path, settings, &PbtReplayConfig::default())?;
            Ok(Box::new(PopulationBasedTrainingReplay::new(config)?))
        },
    },
    Entry { names: &["resource_changing"], make: resource_changing },
];

/// Every allocation function of a [`ResourceChangingScheduler`] with its name.
static ALLOCATIONS: Registry<dyn ResourceAllocation> = Registry::new(
    "allocation",
    &[
        Entry {
            names: &["DistributeResources"],
            make: |path, settings, _| {
                Ok(Box::new(settings_of(path, settings, &DistributeResources::default())?))
            },
        },
        Entry {
            names: &["DistributeResourcesToTopJob"],
            make: |path, settings, _| {
                Ok(Box::new(settings_of(path, settings, &DistributeResourcesToTopJob::default())?))
            },
        },
    ],
);

/// Registers a user-defined scheduler for sweep files. `make` gets its settings (without `type`) and the seed of the
/// sweep.
///
/// The new scheduler replaces an existing one of the same name. Upper and lower case are equivalent.
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
    REGISTRY.register(name, make);
}

/// Makes the scheduler that `config` describes: its name under `type`, and settings that override its defaults. `seed`
/// is used by schedulers whose settings have none. Built-in and [registered](register) names are known.
///
/// # Errors
/// Returns [`Error::Missing`](crate::Error::Missing) without a `type`, [`Error::Config`](crate::Error::Config) if the
/// `type` is unknown, or if a setting has the wrong type or is out of range, and
/// [`Error::UnknownKey`](crate::Error::UnknownKey) if the scheduler has no such setting. Errors about unknown names
/// contain the nearest existing name. Returns [`Error::Io`](crate::Error::Io) if a `policy_file` cannot be read, and the
/// error of a registered function.
pub fn from_config(config: &Config, seed: u64) -> Result<Box<dyn TrialScheduler>> {
    REGISTRY.build("scheduler", config, seed)
}

/// Settings of a scheduler that has none.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

/// Settings of [`ResourceChangingScheduler`] in a sweep file; both fields are objects with a `type`.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceChanging {
    base_scheduler: Config,
    resources_allocation_function: Config,
}

/// Makes a [`ResourceChangingScheduler`] with its base scheduler and allocation function.
fn resource_changing(path: &str, settings: Config, seed: u64) -> Result<Box<dyn TrialScheduler>> {
    let parts: ResourceChanging = settings_of(path, settings, &ResourceChanging::default())?;
    let base: Box<dyn TrialScheduler> = if parts.base_scheduler.is_empty() {
        Box::new(FifoScheduler)
    } else {
        REGISTRY.build(&format!("{path}.base_scheduler"), &parts.base_scheduler, seed)?
    };
    let function = &parts.resources_allocation_function;
    let allocation: Box<dyn ResourceAllocation> = if function.is_empty() {
        Box::<DistributeResources>::default()
    } else {
        ALLOCATIONS.build(&format!("{path}.resources_allocation_function"), function, seed)?
    };
    Ok(Box::new(ResourceChangingScheduler::new(base, allocation)))
}
