//! Searchers by name, as a sweep file has them: `{ type = "TPE", n_initial_points = 20, max_concurrent = 4 }`.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    BasicVariantConfig, BasicVariantGenerator, ConcurrencyLimiter, Repeater, Searcher, TpeConfig, TpeSearch,
    TuneBohb, TuneBohbConfig,
};
use crate::config::{Layer, decode, nearest, overlay};
use crate::named::Registry;
use crate::{Config, Error, Result};

/// Names and what they mean; the first of each kind is the one to write.
const NAMES: [(&str, Kind); 14] = [
    ("random", Kind::Random),
    ("BasicVariant", Kind::Random),
    ("BasicVariantGenerator", Kind::Random),
    ("variant_generator", Kind::Random),
    ("grid", Kind::Random),
    ("TPE", Kind::Tpe),
    ("TpeSearch", Kind::Tpe),
    ("hyperopt", Kind::Tpe),
    ("HyperOptSearch", Kind::Tpe),
    ("optuna", Kind::Tpe),
    ("OptunaSearch", Kind::Tpe),
    ("BOHB", Kind::Bohb),
    ("TuneBOHB", Kind::Bohb),
    ("TuneBohb", Kind::Bohb),
];

/// Ray's searchers that are not here, and what they are.
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

/// What other libraries call a setting.
const RENAMED: [(&str, &str); 4] = [
    ("random_state", "seed"),
    ("random_state_seed", "seed"),
    ("n_startup_trials", "n_initial_points"),
    ("n_startup_jobs", "n_initial_points"),
];

static REGISTERED: Registry<dyn Searcher> = Registry::new();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Random,
    Tpe,
    Bohb,
}

/// What may stand beside the settings of any searcher.
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

/// The searcher that `settings` describe: `type`, the settings of that searcher, and, for any, `max_concurrent` and
/// `batch` ([`ConcurrencyLimiter`]), `repeat` and `index_key` ([`Repeater`]). `seed` is for searchers without their own.
///
/// | `type` | searcher |
/// |---|---|
/// | `random`, `variant_generator`, `BasicVariant` | [`BasicVariantGenerator`] |
/// | `TPE`, `hyperopt`, `optuna` | [`TpeSearch`] |
/// | `BOHB`, `TuneBOHB` | [`TuneBohb`] |
///
/// and what the program [registered](register).
///
/// # Errors
/// Returns [`Error::Config`] if `type` is missing or unknown, or if a value has the wrong kind, and
/// [`Error::UnknownKey`] if the searcher has no such setting ([`Error::Refusals`] if several are wrong). Returns what a
/// registered function returns.
pub fn from_config(settings: &Config, seed: u64) -> Result<Box<dyn Searcher>> {
    let name = name(settings)?;
    if let Some(make) = REGISTERED.find(name) {
        let (own, wrappers) = split(settings)?;
        return wrap(make(&own, seed)?, wrappers);
    }
    let kind = kind(name)?;
    let (searcher, wrappers): (Box<dyn Searcher>, Wrappers) = match kind {
        Kind::Random => {
            let (own, wrappers) = read::<BasicVariantConfig>(settings, seed)?;
            (Box::new(BasicVariantGenerator::new(own)), wrappers)
        }
        Kind::Tpe => {
            let (own, wrappers) = read::<TpeConfig>(settings, seed)?;
            (Box::new(TpeSearch::new(own)), wrappers)
        }
        Kind::Bohb => {
            let (own, wrappers) = read::<TuneBohbConfig>(settings, seed)?;
            (Box::new(TuneBohb::new(own)), wrappers)
        }
    };
    if let (Some(limit), Kind::Bohb) = (wrappers.max_concurrent, kind) {
        let rule = "trials that HyperBand has paused would count: limit the sweep's `max_concurrent_trials`";
        return Err(Error::config("search.max_concurrent", limit, rule));
    }
    wrap(searcher, wrappers)
}

/// Lets sweep files name a searcher of yours: `make` gets its settings, without `type` and without those that any
/// searcher may have (`max_concurrent`, `batch`, `repeat`, `index_key`), and the seed of the sweep.
///
/// A name that exists already then means yours. Upper and lower case are the same.
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
    REGISTERED.register(name, Arc::new(make));
}

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

/// The names to choose from, for messages.
fn known() -> String {
    let listed = ["random", "TPE", "BOHB"].map(str::to_owned).into_iter();
    listed.chain(REGISTERED.names()).collect::<Vec<_>>().join(", ")
}

fn name(settings: &Config) -> Result<&str> {
    let refuse = |value: &dyn std::fmt::Display| {
        Err(Error::config("search.type", value, format!("it must be one of {}", known())))
    };
    match settings.get("type") {
        Some(Value::String(name)) => Ok(name),
        Some(other) => refuse(other),
        None => refuse(&"missing"),
    }
}

fn kind(name: &str) -> Result<Kind> {
    let is = |other: &str| other.eq_ignore_ascii_case(name);
    if let Some((_, kind)) = NAMES.iter().find(|(known, _)| is(known)) {
        return Ok(*kind);
    }
    let bare = name.to_lowercase();
    let bare = bare.strip_suffix("search").unwrap_or(&bare);
    let own = REGISTERED.names();
    let rule = match ABSENT.iter().find(|(absent, _)| *absent == bare) {
        Some((_, what)) => {
            format!("that is {what}, which is not here; there are {}. TPE is the nearest", known())
        }
        None => {
            match nearest(name, NAMES.iter().map(|(name, _)| *name).chain(own.iter().map(String::as_str))) {
                Some(near) => format!("there is no such searcher; nearest: {near}"),
                None => format!("there is no such searcher; there are {}", known()),
            }
        }
    };
    Err(Error::config("search.type", name, rule))
}

/// The settings of a registered searcher, and those around it.
fn split(settings: &Config) -> Result<(Config, Wrappers)> {
    let mut around = object(&Wrappers::default())?;
    let mut own = Config::new();
    for (key, value) in settings.iter().filter(|(key, _)| *key != "type") {
        let side = if around.contains_key(key) { &mut around } else { &mut own };
        side.insert(key.clone(), value.clone());
    }
    Ok((own, decode(&around)?))
}

/// The searcher's own settings and those around it.
fn read<T: Default + Serialize + DeserializeOwned>(settings: &Config, seed: u64) -> Result<(T, Wrappers)> {
    let (mut own, mut around) = (object(&T::default())?, object(&Wrappers::default())?);
    own.insert("seed".into(), seed.into());
    let defaults: Config = own.clone().into_iter().chain(around.clone()).collect();
    let mut values = settings.clone();
    values.shift_remove("type");
    for (theirs, ours) in RENAMED {
        if defaults.contains_key(ours)
            && let Some(value) = values.shift_remove(theirs)
        {
            values.insert(ours.into(), value);
        }
    }
    let resolved = overlay(&defaults, vec![Layer { origin: "[search]".into(), values }], &[])?.config;
    for (key, value) in resolved {
        let side = if around.contains_key(&key) { &mut around } else { &mut own };
        side.insert(key, value);
    }
    Ok((decode(&own)?, decode(&around)?))
}

fn object<T: Serialize>(settings: &T) -> Result<Config> {
    match serde_json::to_value(settings).map_err(Error::other)? {
        Value::Object(object) => Ok(object),
        other => Err(Error::config("search", other, "settings must be an object")),
    }
}
