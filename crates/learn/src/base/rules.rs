//! Checks of single settings. An error names the key, its value and the rule; [`all`] reports every rule that is
//! broken, not the first alone.

use crate::base::error::{Error, Result};
use crate::base::schedule::Piecewise;
use pavlov_envs::Space;

/// Reports every error of several checks at once.
///
/// # Errors
/// Returns the error itself where one check failed, and [`Error::Tune`] with [`Refusals`](pavlov_tune::Error::Refusals)
/// where several did.
pub fn all(checks: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let mut errors: Vec<Error> = checks.into_iter().filter_map(Result::err).collect();
    match errors.len() {
        1 => Err(errors.remove(0)),
        _ => Ok(pavlov_tune::Error::all(errors.into_iter().map(Into::into))?),
    }
}

/// Refuses a value where `broken` holds.
///
/// # Errors
/// Returns [`Error::Config`], which names the key, its value and the rule, if `broken` holds.
pub fn refuse_if(
    broken: bool,
    key: &str,
    value: impl std::fmt::Display,
    rule: impl Into<String>,
) -> Result<()> {
    if broken { Err(Error::config(key, value, rule)) } else { Ok(()) }
}

/// Refuses schedules that have no points, whose steps do not grow, or whose values are not finite.
///
/// # Errors
/// Fails as [`all`] does, with [`Error::Config`] for each schedule that [`Piecewise::validate`] refuses.
pub fn schedules<const N: usize>(settings: [(&str, &Option<Piecewise>); N]) -> Result<()> {
    all(settings.map(|(key, schedule)| schedule.as_ref().map_or(Ok(()), |s| s.validate(key))))
}

/// Refuses numbers that are not finite or not above 0.
///
/// # Errors
/// Fails as [`all`] does, with [`Error::Config`] for each setting that breaks the rule.
pub fn above_zero<const N: usize>(settings: [(&str, f64); N]) -> Result<()> {
    numbers(settings, |x| x > 0.0 && x.is_finite(), "it must be above 0")
}

/// Refuses numbers that are not finite or not above 0; `None` is fine.
///
/// # Errors
/// Fails as [`all`] does, with [`Error::Config`] for each setting that breaks the rule.
pub fn above_zero_or_null<const N: usize>(settings: [(&str, Option<f64>); N]) -> Result<()> {
    let settings = settings.map(|(key, value)| (key, value.unwrap_or(1.0)));
    numbers(settings, |x| x > 0.0 && x.is_finite(), "it must be above 0, or null")
}

/// Refuses numbers that are negative or not finite.
///
/// # Errors
/// Fails as [`all`] does, with [`Error::Config`] for each setting that breaks the rule.
pub fn not_negative<const N: usize>(settings: [(&str, f64); N]) -> Result<()> {
    numbers(settings, |x| x >= 0.0 && x.is_finite(), "it must not be negative")
}

/// Refuses numbers outside 0..=1.
///
/// # Errors
/// Fails as [`all`] does, with [`Error::Config`] for each setting that breaks the rule.
pub fn share<const N: usize>(settings: [(&str, f64); N]) -> Result<()> {
    numbers(settings, |x| (0.0..=1.0).contains(&x), "it must be in 0..=1")
}

/// Refuses settings that are 0.
///
/// # Errors
/// Fails as [`all`] does, with [`Error::Config`] for each setting that breaks the rule.
pub fn at_least_one<const N: usize>(settings: [(&str, usize); N]) -> Result<()> {
    all(settings.map(|(key, value)| refuse_if(value == 0, key, value, "it must be at least 1")))
}

/// Returns the number of components of a bounded continuous action. Errors name `who`, the algorithm.
///
/// # Errors
/// Returns [`Error::Space`] for any space but a Box whose bounds are finite.
pub fn bounded_actions(who: &str, space: &Space) -> Result<usize> {
    let mut needs = "a Box action space with finite bounds".to_owned();
    match space {
        Space::Box { low, high, .. } => {
            if low.iter().chain(high).all(|bound| bound.is_finite()) {
                return Ok(space.width());
            }
            needs += " (wrap the environment in an `Env` that names bounds and stretches actions as it needs them, or use \
                      PPO, which acts without bounds)";
        }
        Space::Discrete { .. } => needs += " (DQN, PPO and SAC take discrete actions)",
        _ => {}
    }
    Err(Error::Space { who: who.into(), needs, space: space.to_string() })
}

fn numbers<const N: usize>(settings: [(&str, f64); N], holds: fn(f64) -> bool, rule: &str) -> Result<()> {
    all(settings.map(|(key, value)| refuse_if(!holds(value), key, value, rule)))
}
