//! The logs of population based training: `pbt_global.txt` and one `pbt_policy_<trial id>.txt` per trial.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Config, Error, Result, files, read_file};

/// One exploit: a line of JSON, a list of the fields in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Line", into = "Line")]
pub struct PolicyStep {
    /// The first tag of the trial that changes.
    pub tag: String,
    /// The first tag of the trial whose state it takes over.
    pub source_tag: String,
    /// `training_iteration` of the trial's newest result before the one that led to this; 0: none.
    pub iteration: u64,
    /// `training_iteration` of the source's newest result; 0: none.
    pub source_iteration: u64,
    /// The settings of the source.
    pub source_config: Config,
    /// The settings that the trial goes on with.
    pub new_config: Config,
}

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
    /// Appends the step to both logs in `dir`. The log of `trial_id` starts anew from the one of `source`, whose
    /// history it takes over with the state.
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

fn append(path: &Path, line: &str) -> Result<()> {
    let mut file = files::append(path)?;
    file.write_all(line.as_bytes()).map_err(Error::io("write", path))
}
