//! Writes results for MLflow: into its SQLite file, or into the folders that MLflow before 3.13 reads.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::base::{Metrics, Result, read_file, replace_file};
use crate::trainable::TrialContext;

#[cfg(feature = "sqlite")]
mod again;
#[cfg(feature = "sqlite")]
mod database;
#[cfg(feature = "sqlite")]
mod errors;
mod folder;
#[cfg(feature = "sqlite")]
mod schema;

#[cfg(feature = "sqlite")]
pub use database::MlflowLogger;
pub use folder::MlflowFolderLogger;

/// Metric by which results after a checkpoint are found.
const ITERATION: &str = "training_iteration";
/// Maximum number of characters of a setting that MLflow shows.
const LONGEST: usize = 6000;

/// Returns the id of the run that an earlier process logged. Without one, writes a new id to the file.
fn run_id(path: &Path) -> Result<String> {
    if let Some(id) = known_id(path) {
        return Ok(id);
    }
    let id = format!("{:032x}", rand::random::<u128>());
    replace_file(path, json!({"run_id": id}).to_string().as_bytes())?;
    Ok(id)
}

/// Returns the id of the run that an earlier process logged. The file may be a stranger's: only an id is taken from it.
fn known_id(path: &Path) -> Option<String> {
    let kept: Value = serde_json::from_slice(&read_file(path).ok()?).ok()?;
    let id = kept["run_id"].as_str()?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

/// Returns the tags of a run.
fn tags<'a>(name: &'a str, run_directory: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("mlflow.runName", name),
        ("mlflow.source.name", "pavlov"),
        ("mlflow.source.type", "LOCAL"),
        ("pavlov.run_directory", run_directory),
    ]
}

/// Returns a setting as text that MLflow shows.
fn text_of_setting(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(LONGEST).collect()
}

/// Returns the parts of a name. Characters that MLflow rejects become `_`.
fn parts(name: &str) -> Vec<String> {
    let takes = |c: char| c.is_ascii_alphanumeric() || "_-. /:".contains(c);
    let name: String = name.chars().map(|c| if takes(c) { c } else { '_' }).collect();
    name.split('/').filter(|part| !matches!(*part, "" | "." | "..")).map(str::to_owned).collect()
}

/// Returns the iteration of a result and its step: `timesteps_total`, or the iteration if timesteps are not counted.
fn iteration_and_step(result: &Metrics) -> (u64, u64) {
    let whole = |key: &str| result.get(key).and_then(Value::as_u64);
    let iteration = whole(ITERATION).unwrap_or(0);
    (iteration, whole("timesteps_total").filter(|n| *n > 0).unwrap_or(iteration))
}

/// Returns the name of the experiment: the given one, or that of the sweep's directory.
fn experiment_name(given: Option<&String>, trial: &TrialContext) -> String {
    given.cloned().or_else(|| super::folder_of(trial.logdir.parent())).unwrap_or_else(|| "pavlov".into())
}

/// Returns the name of the run.
fn run_name(trial: &TrialContext) -> String {
    super::folder_of(Some(&trial.logdir)).unwrap_or_else(|| trial.trial_id.clone())
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
