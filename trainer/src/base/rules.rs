//! Rules of single settings. An error names the key, its value and the rule.

use crate::base::error::{Error, Result};

/// Refuses numbers that are not above 0 and finite.
///
/// # Errors
/// [`Error::Config`] with the first setting that breaks the rule.
pub fn above_zero<const N: usize>(settings: [(&str, f64); N]) -> Result<()> {
    all(settings, |x| x > 0.0 && x.is_finite(), "it must be above 0")
}

/// Refuses numbers that are set and not above 0 and finite.
///
/// # Errors
/// [`Error::Config`] with the first setting that breaks the rule.
pub fn above_zero_or_null<const N: usize>(settings: [(&str, Option<f64>); N]) -> Result<()> {
    let settings = settings.map(|(key, value)| (key, value.unwrap_or(1.0)));
    all(settings, |x| x > 0.0 && x.is_finite(), "it must be above 0, or null")
}

/// Refuses numbers below 0 or not finite.
///
/// # Errors
/// [`Error::Config`] with the first setting that breaks the rule.
pub fn not_negative<const N: usize>(settings: [(&str, f64); N]) -> Result<()> {
    all(settings, |x| x >= 0.0 && x.is_finite(), "it must not be negative")
}

/// Refuses numbers outside of 0 to 1.
///
/// # Errors
/// [`Error::Config`] with the first setting that breaks the rule.
pub fn share<const N: usize>(settings: [(&str, f64); N]) -> Result<()> {
    all(settings, |x| (0.0..=1.0).contains(&x), "it must be in 0..=1")
}

/// Refuses 0.
///
/// # Errors
/// [`Error::Config`] with the first setting that breaks the rule.
pub fn at_least_one<const N: usize>(settings: [(&str, usize); N]) -> Result<()> {
    settings.into_iter().try_for_each(|(key, value)| match value {
        0 => Err(Error::config(key, value, "it must be at least 1")),
        _ => Ok(()),
    })
}

fn all<const N: usize>(settings: [(&str, f64); N], holds: fn(f64) -> bool, rule: &str) -> Result<()> {
    settings.into_iter().try_for_each(|(key, value)| match holds(value) {
        true => Ok(()),
        false => Err(Error::config(key, value, rule)),
    })
}
