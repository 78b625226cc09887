//! Makes the searchers that a sweep file names: `{ type = "TPE", n_initial_points = 20, max_concurrent = 4 }`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    BasicVariantConfig, BasicVariantGenerator, ConcurrencyLimiter, Repeater, Searcher, TpeConfig, TpeSearch,
    TuneBohb, TuneBohbConfig,
};
use crate::base::config::{decode, nearest};
use crate::base::named::{Entry, Registry, settings_of};
use crate::base::{Config, Error, Result};

/// Every searcher with its names.
static REGISTRY: Registry<dyn Searcher> = Registry::new(
    "searcher",
    &[
        Entry {
            names: &["random", "BasicVariant", "BasicVariantGenerator", "variant_generator", "grid"],
            make: |path, settings, seed| {
                let defaults = BasicVariantConfig { seed, ..Default::default() };
                Ok(Box::new(BasicVariantGenerator::new(settings_of(
                    path,
                    renamed(settings, &[]),
                    &defaults,
                )?)))
            },
        },
        Entry {
            names: &["TPE", "TpeSearch", "hyperopt", "HyperOptSearch", "optuna", "OptunaSearch"],
            make: |path, settings, seed| {
                let defaults = TpeConfig { seed, ..Default::default() };
                Ok(Box::new(TpeSearch::new(settings_of(path, renamed(settings, &POINTS), &defaults)?)))
            },
        },
        Entry {
            names: &["BOHB", "TuneBOHB"],
            make: |path, settings, seed| {
                let defaults = TuneBohbConfig { seed, ..Default::default() };
                Ok(Box::new(TuneBohb::new(settings_of(path, renamed(settings, &[]), &defaults)?)))
            },
        },
    ],
);

/// Ray's searchers that are not implemented here, with a description for error messages.
const ABSENT: [(&str, &str); 13] = [
    ("ax", "a Gaussian process"),
    ("bayesopt", "a Gaussian process"),
    ("hebo", "a Gaussian process"),
    ("dragonfly", "a Gaussian process"),
    ("skopt", "a Gaussian process or forest"),
    ("nevergrad", "a library of evolutionary optimizers"),
    ("cmaes", "an evolution strategy"),
    ("zoopt", "a classification-based optimizer"),
    ("sigopt", "a service"),
    ("blendsearch", "a cost-frugal local search"),
    ("cfo", "a cost-frugal local search"),
    ("gp", "a Gaussian process"),
    ("sobol", "a start for TPE: write `type = \"TPE\"` with `sobol = true`"),
];

/// Names that other libraries use for the seed of a searcher, each with the name used here.
const SEEDS: [(&str, &str); 2] = [("random_state", "seed"), ("random_state_seed", "seed")];

/// Names that other libraries use for the number of trials before TPE uses its model, each with the name used here.
const POINTS: [(&str, &str); 2] =
    [("n_startup_trials", "n_initial_points"), ("n_startup_jobs", "n_initial_points")];

/// Replaces the names that other libraries use (`SEEDS` and `own`) by the names used here.
fn renamed(mut settings: Config, own: &[(&str, &str)]) -> Config {
    for (theirs, ours) in SEEDS.iter().chain(own) {
        if let Some(value) = settings.shift_remove(*theirs) {
            settings.insert((*ours).into(), value);
        }
    }
    settings
}

/// Settings that every searcher accepts in addition to its own.
#[derive(Debug, Serialize, Deserialize)]
struct Wrappers {
    max_concurrent: Option<usize>,
    batch: bool,
    repeat: usize,
    index_key: Option<String>,
}

impl Default for Wrappers {
    fn default() -> Self {
        Wrappers { max_concurrent: None, batch: false, repeat: 1, index_key: None }
    }
}

/// Makes the searcher that `settings` describe.
///
/// They contain the name under `type`, the searcher's own settings, and those that every searcher accepts:
/// `max_concurrent` and `batch` (see [`ConcurrencyLimiter`]), `repeat` and `index_key` (see [`Repeater`]). `seed` is
/// used by searchers whose settings have none.
///
/// | `type` | searcher |
/// |---|---|
/// | `random`, `variant_generator`, `BasicVariant` | [`BasicVariantGenerator`] |
/// | `TPE`, `hyperopt`, `optuna` | [`TpeSearch`] |
/// | `BOHB`, `TuneBOHB` | [`TuneBohb`] |
///
/// Searchers that the program [registered](register) are known as well.
///
/// # Errors
/// Returns [`Error::Missing`] without a `type`, [`Error::Config`] if the `type` is unknown or a value has the wrong type,
/// and [`Error::UnknownKey`] if the searcher has no such setting ([`Error::Refusals`] if several are unknown). Returns
/// the error of a registered function.
pub fn from_config(settings: &Config, seed: u64) -> Result<Box<dyn Searcher>> {
    let name = REGISTRY.name("search", settings)?;
    let canonical = REGISTRY.canonical(name);
    let bare = name.to_lowercase();
    let bare = bare.strip_suffix("search").unwrap_or(&bare);
    let absent = ABSENT.iter().find(|(absent, _)| *absent == bare);
    if let (Some((_, what)), None, false) =
        (absent, canonical, REGISTRY.listed().iter().any(|own| own.eq_ignore_ascii_case(name)))
    {
        let listed = REGISTRY.listed().join(", ");
        let rule = format!("that is {what}, which is not here; there are {listed}. TPE is the nearest");
        return Err(Error::config("search.type", format!("{name:?}"), rule));
    }
    let (own, around) = split(settings)?;
    let wrappers: Wrappers = decode(&around)?;
    let searcher = REGISTRY.build("search", &own, seed).map_err(|error| near_wrapper(error, &around))?;
    if let (Some(limit), Some("BOHB")) = (wrappers.max_concurrent, canonical) {
        let rule = "trials that HyperBand has paused would count: limit the sweep's `max_concurrent_trials`";
        return Err(Error::config("search.max_concurrent", limit, rule));
    }
    wrap(searcher, wrappers)
}

/// Registers a user-defined searcher for sweep files. `make` gets the seed of the sweep and the searcher's settings,
/// without `type` and without those that every searcher accepts (`max_concurrent`, `batch`, `repeat`, `index_key`).
///
/// The new searcher replaces an existing one of the same name. Upper and lower case are equivalent.
///
/// ```
/// use pavlov_tune::config::decode;
/// use pavlov_tune::search::{self, TpeConfig, TpeSearch};
///
/// search::register("Bold", |settings, seed| {
///     Ok(Box::new(TpeSearch::new(TpeConfig { seed, gamma: 0.1, ..decode(settings)? })))
/// });
/// // In the sweep file:
/// // [search]
/// // type = "Bold"
/// // max_concurrent = 4
/// ```
pub fn register(
    name: &str,
    make: impl Fn(&Config, u64) -> Result<Box<dyn Searcher>> + Send + Sync + 'static,
) {
    REGISTRY.register(name, make);
}

/// Wraps a searcher in a [`Repeater`] and a [`ConcurrencyLimiter`] as the settings ask.
fn wrap(searcher: Box<dyn Searcher>, wrappers: Wrappers) -> Result<Box<dyn Searcher>> {
    let Wrappers { max_concurrent, batch, repeat, index_key } = wrappers;
    let searcher = match repeat {
        1 => searcher,
        _ => Box::new(Repeater::new(searcher, repeat, index_key)),
    };
    match max_concurrent {
        Some(limit) => Ok(Box::new(ConcurrencyLimiter::new(searcher, limit, batch))),
        None if batch => {
            Err(Error::config("search.batch", true, "it needs `max_concurrent`, the size of a batch"))
        }
        None => Ok(searcher),
    }
}

/// Splits settings into those of the searcher itself and those of its [`Wrappers`].
fn split(settings: &Config) -> Result<(Config, Config)> {
    let Value::Object(mut around) = serde_json::to_value(Wrappers::default()).map_err(Error::other)? else {
        return Err(Error::config("search", "no object", "settings are objects"));
    };
    let mut own = Config::new();
    for (key, value) in settings {
        let side = if around.contains_key(key) { &mut around } else { &mut own };
        side.insert(key.clone(), value.clone());
    }
    Ok((own, around.into()))
}

/// Adds the nearest setting of [`Wrappers`] to the error for an unknown setting that has no nearest one yet.
fn near_wrapper(error: Error, around: &Config) -> Error {
    match error {
        Error::UnknownKey { key, origin, nearest: None, known } => {
            let bare = key.rsplit('.').next().unwrap_or(&key);
            let nearest = nearest(bare, around.keys().map(String::as_str)).map(String::from);
            Error::UnknownKey { key, origin, nearest, known }
        }
        error => error,
    }
}
