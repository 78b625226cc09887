//! Stoppers by name, as in a sweep file: `{ type = "TrialPlateau", metric = "episode_reward_mean" }`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    ExperimentPlateauConfig, ExperimentPlateauStopper, MaximumIterationStopper, Stopper, TimeoutStopper,
    TrialPlateauConfig, TrialPlateauStopper,
};
use crate::base::named::{Entry, Registry, settings_of};
use crate::base::{Config, Error, Result};

/// Every stopper with its names.
static REGISTRY: Registry<dyn Stopper> = Registry::new(
    "stopper",
    &[
        Entry {
            names: &["MaximumIteration", "MaximumIterationStopper"],
            make: |path, settings, _| {
                let MaximumIteration { max_iter } = settings_of(path, settings, &Default::default())?;
                let missing =
                    || Error::missing("stoppers.max_iter", "write after how many results a trial ends");
                match max_iter.ok_or_else(missing)? {
                    0 => Err(Error::config("stoppers.max_iter", 0, "it must be 1 or more")),
                    max_iter => Ok(Box::new(MaximumIterationStopper::new(max_iter))),
                }
            },
        },
        Entry {
            names: &["Timeout", "TimeoutStopper"],
            make: |path, settings, _| {
                let Timeout { timeout } = settings_of(path, settings, &Default::default())?;
                let missing =
                    || Error::missing("stoppers.timeout", "write after how many seconds the sweep ends");
                let timeout = timeout.ok_or_else(missing)?;
                let rule = "it must be seconds, 0 or more";
                let duration = Duration::try_from_secs_f64(timeout)
                    .map_err(|_| Error::config("stoppers.timeout", timeout, rule))?;
                Ok(Box::new(TimeoutStopper::new(duration)))
            },
        },
        Entry {
            names: &["TrialPlateau", "TrialPlateauStopper"],
            make: |path, settings, _| {
                let config = settings_of(path, settings, &TrialPlateauConfig::default())?;
                Ok(Box::new(TrialPlateauStopper::new(config)?))
            },
        },
        Entry {
            names: &["ExperimentPlateau", "ExperimentPlateauStopper"],
            make: |path, settings, _| {
                let config = settings_of(path, settings, &ExperimentPlateauConfig::default())?;
                Ok(Box::new(ExperimentPlateauStopper::new(config)?))
            },
        },
    ],
);

/// Registers a custom stopper under a name that sweep files can use. `make` gets the stopper's settings without `type`.
///
/// The new stopper replaces an existing one of the same name. Case is ignored.
///
/// ```
/// use pavlov_tune::stoppers::{self, FunctionStopper};
///
/// stoppers::register("TooLow", |settings| {
///     let least = settings.get("least").and_then(|least| least.as_f64()).unwrap_or(0.0);
///     let is_too_low = move |_: &str, result: &pavlov_tune::Metrics| {
///         result["episode_reward_mean"].as_f64().is_some_and(|mean| mean < least)
///     };
///     Ok(Box::new(FunctionStopper::new(is_too_low)))
/// });
/// // In the sweep file:
/// // [[stoppers]]
/// // type = "TooLow"
/// // least = -200
/// ```
pub fn register(name: &str, make: impl Fn(&Config) -> Result<Box<dyn Stopper>> + Send + Sync + 'static) {
    REGISTRY.register(name, move |settings, _| make(settings));
}

#[derive(Default, Serialize, Deserialize)]
struct MaximumIteration {
    max_iter: Option<u64>,
}

#[derive(Default, Serialize, Deserialize)]
struct Timeout {
    timeout: Option<f64>,
}

/// Builds the stopper that `config` describes: its name under `type`, and settings that override the stopper's defaults.
///
/// | `type` | settings |
/// |---|---|
/// | `MaximumIteration` | `max_iter`, see [`MaximumIterationStopper`] |
/// | `Timeout` | `timeout` in seconds, see [`TimeoutStopper`] |
/// | `TrialPlateau` | see [`TrialPlateauConfig`] |
/// | `ExperimentPlateau` | see [`ExperimentPlateauConfig`] |
///
/// Stoppers that the program [registered](register) are available too.
///
/// # Errors
/// Returns [`Error::Missing`] without a `type` or a required setting, [`Error::Config`] if the `type` is unknown, or if a
/// setting has the wrong type or is out of range, and [`Error::UnknownKey`] if the stopper has no such setting. Returns the
/// error of a registered function.
pub fn from_config(config: &Config) -> Result<Box<dyn Stopper>> {
    REGISTRY.build("stoppers", config, 0)
}
