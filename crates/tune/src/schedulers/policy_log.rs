//! Logs of population based training: `pbt_global.txt` and one `pbt_policy_<trial id>.txt` per trial.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::base::{Config, Error, Result, files, read_file};

/// One exploit in a policy log: a line with a JSON array of the fields in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Line", into = "Line")]
pub struct PolicyStep {
    /// First tag of the trial that changes.
    pub tag: String,
    /// First tag of the trial whose state is copied.
    pub source_tag: String,
    /// `training_iteration` of the trial's newest result before the one that led to the exploit; 0 without one.
    pub iteration: u64,
    /// `training_iteration` of the source's newest result; 0 without one.
    pub source_iteration: u64,
    /// Settings of the source.
    pub source_config: Config,
    /// Settings with which the trial continues.
    pub new_config: Config,
}

/// JSON form of a [`PolicyStep`].
type Line = (String, String, u64, u64, Config, Config);

impl From<Line> for PolicyStep {
    fn from((tag, source_tag, iteration, source_iteration, source_config, new_config): Line) -> Self {
        Self { tag, source_tag, iteration, source_iteration, source_config, new_config }
    }
}

impl From<PolicyStep> for Line {
    fn from(step: PolicyStep) -> Self {
        (
            step.tag,
            step.source_tag,
            step.iteration,
            step.source_iteration,
            step.source_config,
            step.new_config,
        )
    }
}

impl PolicyStep {
    /// Appends the step to both logs in `dir`. The log of `trial_id` first becomes a copy of the one of `source`, since
    /// the trial copies its state.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if a log cannot be read or written, or if it is a symbolic link.
    pub fn append(&self, dir: &Path, trial_id: &str, source: &str) -> Result<()> {
        let line = serde_json::to_string(self).map_err(Error::other)? + "\n";
        let policy = |trial_id: &str| dir.join(format!("pbt_policy_{trial_id}.txt"));
        append(&dir.join("pbt_global.txt"), &line)?;
        let history = policy(source);
        let history = match read_file(&history) {
            Ok(history) => history,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io("read", &history)(error)),
        };
        let own = policy(trial_id);
        if source != trial_id && !history.is_empty() {
            files::replace(&own, |file| file.write_all(&history).map_err(Error::io("write", &own)))?;
        }
        append(&own, &line)
    }
}

/// Appends a line to a file.
fn append(path: &Path, line: &str) -> Result<()> {
    let mut file = files::append(path)?;
    file.write_all(line.as_bytes()).map_err(Error::io("write", path))
}
