//! Why a run does not learn: rules over its results, its settings and its newest checkpoint.
//!
//! Each rule is a function in the folder `rules`. It sees the [`Records`] of a run and returns a [`Finding`]: the number
//! that it looked at, the reason, the setting to change, and how sure it is.

mod records;
mod rules;

use std::fmt;
use std::path::Path;

use pavlov_tune::loggers::read_results;
use pavlov_tune::{Config, checkpoint};
use serde::Serialize;

pub use self::records::{Records, Row, Saved};
pub use self::rules::seeds;

/// How sure a rule is that what it found keeps the run from learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sure {
    /// The number leaves no other explanation.
    Certain,
    /// The number seldom has another explanation.
    Likely,
    /// The number can have a good reason.
    Possible,
}

/// What a rule found in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// How sure the rule is.
    pub sure: Sure,
    /// The number, with the name that it has in results or settings.
    pub number: String,
    /// Why that keeps a policy from learning.
    pub reason: String,
    /// The setting to change.
    pub change: String,
}

impl Finding {
    pub(crate) fn new(
        rule: &'static str,
        sure: Sure,
        number: impl Into<String>,
        reason: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        Finding { rule, sure, number: number.into(), reason: reason.into(), change: change.into() }
    }
}

/// Writes the finding as one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sure = format!("{:?}", self.sure).to_lowercase();
        write!(f, "{sure}: {}: {}; {}", self.number, self.reason, self.change)
    }
}

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
pub fn examine_run(dir: impl AsRef<Path>) -> crate::Result<Vec<Finding>> {
    Ok(examine(&read(dir.as_ref())?))
}

/// Reads the records of the run in `dir`.
///
/// # Errors
/// Fails if `dir` has no readable `result.json`, or if its newest checkpoint cannot be read.
pub fn read(dir: &Path) -> crate::Result<Records> {
    let results = read_results(dir)?;
    let config = results.last().and_then(|result| result.get("config")?.as_object().cloned());
    let mut records = Records::new(config.unwrap_or_else(Config::new));
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
