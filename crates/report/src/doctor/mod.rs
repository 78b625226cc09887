//! Why a run does not learn: rules over its results, its settings and its newest checkpoint.
//!
//! Each rule is a function in the folder `rules`. It sees the [`Records`] of a run and returns a [`Finding`]: the number
//! that it looked at, the reason, the setting to change, and how sure it is.

mod finding;
mod records;
mod rules;

use std::path::Path;

use pavlov_tune::loggers::read_results;
use pavlov_tune::{Config, checkpoint};

pub use self::finding::{Finding, Sure};
pub use self::records::{Records, Row, Saved};
pub use self::rules::seeds;

/// Applies every rule to the records of a run; the surest findings come first.
pub fn examine(records: &Records) -> Vec<Finding> {
    let mut found: Vec<Finding> = rules::ALL.iter().filter_map(|rule| rule(records)).collect();
    found.sort_by_key(|finding| finding.sure);
    found
}

/// Applies the rules that can tell early that a run goes wrong; a run calls this after each iteration.
pub fn watch(records: &Records) -> Vec<Finding> {
    rules::EARLY.iter().filter_map(|rule| rule(records)).collect()
}

/// Reads the results, the settings and the newest whole checkpoint of the run in `dir`, and applies every rule.
///
/// # Errors
/// Fails if `dir` has no readable `result.json`, or if its newest checkpoint cannot be read.
pub fn examine_run(dir: impl AsRef<Path>) -> pavlov_trainer::Result<Vec<Finding>> {
    Ok(examine(&read(dir.as_ref())?))
}

/// Reads the records of the run in `dir`.
///
/// # Errors
/// Fails if `dir` has no readable `result.json`, or if its newest checkpoint cannot be read.
pub fn read(dir: &Path) -> pavlov_trainer::Result<Records> {
    let results = read_results(dir)?;
    let config = results.last().and_then(|result| result.get("config")?.as_object().cloned());
    let mut records = Records::new(config.map_or_else(Config::new, Config::from));
    results.iter().for_each(|result| records.add(result));
    records.target = target_of(dir);
    if let Some(newest) = checkpoint::latest(dir)? {
        records.saved = Some(Saved::read(&newest)?);
    }
    Ok(records)
}

/// The environment steps at which the command's run in `dir` stops; `None` for other runs.
fn target_of(dir: &Path) -> Option<f64> {
    let text = std::fs::read(dir.join("run.json")).ok()?;
    let run: serde_json::Value = serde_json::from_slice(&text).ok()?;
    run["stop"]["timesteps_total"].as_f64()
}
