//! Stoppers as a sweep file names them: `{ type = "TrialPlateau", metric = "episode_reward_mean" }`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    ExperimentPlateauConfig, ExperimentPlateauStopper, MaximumIterationStopper, Stopper, TimeoutStopper,
    TrialPlateauConfig, TrialPlateauStopper,
};
use crate::named::{self, Registry};
use crate::{Config, Error, Result};

/// Every name of a stopper; upper and lower case are the same.
const NAMES: [(&str, Kind); 8] = [
    ("MaximumIteration", Kind::MaximumIteration),
    ("MaximumIterationStopper", Kind::MaximumIteration),
    ("Timeout", Kind::Timeout),
    ("TimeoutStopper", Kind::Timeout),
    ("TrialPlateau", Kind::TrialPlateau),
    ("TrialPlateauStopper", Kind::TrialPlateau),
    ("ExperimentPlateau", Kind::ExperimentPlateau),
    ("ExperimentPlateauStopper", Kind::ExperimentPlateau),
];

const LISTED: [&str; 4] = ["MaximumIteration", "Timeout", "TrialPlateau", "ExperimentPlateau"];

static REGISTERED: Registry<dyn Stopper> = Registry::new();

#[derive(Clone, Copy)]
enum Kind {
    MaximumIteration,
    Timeout,
    TrialPlateau,
    ExperimentPlateau,
}

/// Lets sweep files name a stopper of yours: `make` gets its settings, without `type`.
///
/// A name that exists already then means yours. Upper and lower case are the same.
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
    REGISTERED.register(name, Arc::new(move |settings: &Config, _| make(settings)));
}

#[derive(Default, Serialize, Deserialize)]
struct MaximumIteration {
    max_iter: Option<u64>,
}

#[derive(Default, Serialize, Deserialize)]
struct Timeout {
    timeout: Option<f64>,
}

/// The stopper that `config` describes: its name under `type`, and its settings over their defaults.
///
/// | `type` | settings |
/// |---|---|
/// | `MaximumIteration` | `max_iter`, see [`MaximumIterationStopper`] |
/// | `Timeout` | `timeout` in seconds, see [`TimeoutStopper`] |
/// | `TrialPlateau` | see [`TrialPlateauConfig`] |
/// | `ExperimentPlateau` | see [`ExperimentPlateauConfig`] |
///
/// and what the program [registered](register).
///
/// # Errors
/// Returns [`Error::Config`] if `type` is missing or unknown, or if a setting has the wrong kind or is out of range,
/// and [`Error::UnknownKey`] if the stopper has no such setting. Returns what a registered function returns.
pub fn from_config(config: &Config) -> Result<Box<dyn Stopper>> {
    let path = "stoppers";
    let (name, settings) = named::split(path, config)?;
    if let Some(make) = REGISTERED.find(name) {
        return make(&settings, 0);
    }
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, kind)) = known else {
        let names = NAMES.iter().map(|(known, _)| *known);
        return Err(named::unknown_type(path, name, names, &LISTED, &REGISTERED.names()));
    };
    Ok(match kind {
        Kind::MaximumIteration => {
            let MaximumIteration { max_iter } = named::settings_of(path, settings, &Default::default())?;
            let missing = || Error::missing("stoppers.max_iter", "write after how many results a trial ends");
            let max_iter = max_iter.ok_or_else(missing)?;
            if max_iter == 0 {
                return Err(Error::config("stoppers.max_iter", 0, "it must be 1 or more"));
            }
            Box::new(MaximumIterationStopper::new(max_iter))
        }
        Kind::Timeout => {
            let Timeout { timeout } = named::settings_of(path, settings, &Default::default())?;
            let missing =
                || Error::missing("stoppers.timeout", "write after how many seconds the sweep ends");
            let timeout = timeout.ok_or_else(missing)?;
            let duration = Duration::try_from_secs_f64(timeout)
                .map_err(|_| Error::config("stoppers.timeout", timeout, "it must be seconds, 0 or more"))?;
            Box::new(TimeoutStopper::new(duration))
        }
        Kind::TrialPlateau => {
            let defaults = TrialPlateauConfig::default();
            Box::new(TrialPlateauStopper::new(named::settings_of(path, settings, &defaults)?)?)
        }
        Kind::ExperimentPlateau => {
            let defaults = ExperimentPlateauConfig::default();
            Box::new(ExperimentPlateauStopper::new(named::settings_of(path, settings, &defaults)?)?)
        }
    })
}
