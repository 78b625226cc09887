//! Stable-Baselines3's arguments, which the library translates.

use pavlov::sb3::{self, Class, Refused};
use pavlov::tune::Config;
use pyo3::prelude::*;
use serde_json::Value;

use crate::fault::{Fault, Result, raised};

fn class(name: &str) -> Result<&'static Class> {
    Class::named(name).ok_or_else(|| Fault::config(format!("there is no class {name}")))
}

fn read(arguments: &str) -> Result<Config> {
    serde_json::from_str(arguments)
        .map_err(|error| Fault::config(format!("the arguments {arguments} are no JSON: {error}")))
}

/// The table of arguments, in JSON.
#[pyfunction]
pub(crate) fn arguments_table() -> &'static str {
    sb3::TABLE
}

/// Checks arguments in JSON; returns the sentences about those that are refused.
#[pyfunction]
pub(crate) fn check_arguments(py: Python<'_>, name: &str, arguments: &str) -> PyResult<Vec<String>> {
    let refused = class(name).and_then(|class| Ok(class.check(&read(arguments)?)));
    Ok(sentences(&refused.map_err(|fault| raised(py, fault))?))
}

/// Translates arguments in JSON for a number of environments and the first and last step of the run, if they are known;
/// returns the settings in JSON and the sentences about the arguments that are refused.
#[pyfunction]
pub(crate) fn translate_arguments(
    py: Python<'_>,
    name: &str,
    policy: &str,
    arguments: &str,
    copies: u64,
    span: Option<(u64, u64)>,
) -> PyResult<(String, Vec<String>)> {
    let read = class(name).and_then(|class| Ok((class, read(arguments)?)));
    let (class, arguments) = read.map_err(|fault| raised(py, fault))?;
    let translated = sb3::translate(class, policy, &arguments, copies, span);
    Ok((Value::from(translated.config).to_string(), sentences(&translated.refused)))
}

fn sentences(refused: &[Refused]) -> Vec<String> {
    refused.iter().map(|refused| refused.sentence.clone()).collect()
}
