//! The settings in `run.json` and `params.json`, compared with those that the checkpoints hold.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::rows::Rows;
use crate::cli::run_dir::RunFile;
use crate::cli::state_difference::{short, walk};
use crate::tune::{Config, Error, checkpoint, read_file};

/// The settings of a run's checkpoints, in the order in which they were written.
pub(super) struct Settings {
    saved: Vec<Saved>,
}

struct Saved {
    name: String,
    algorithm: String,
    iteration: u64,
    config: Config,
}

impl Settings {
    /// Reads the settings of checkpoints.
    pub(super) fn read(checkpoints: &[PathBuf]) -> anyhow::Result<Settings> {
        let saved = checkpoints.iter().map(|path| {
            let metadata = checkpoint::metadata(path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let algorithm = checkpoint::verify(path, None)?.kind;
            anyhow::Ok(Saved { name, algorithm, iteration: metadata.iteration, config: metadata.config })
        });
        Ok(Settings { saved: saved.collect::<anyhow::Result<_>>()? })
    }

    /// Describes where the files of the run have other settings than its checkpoints.
    pub(super) fn differences(
        &self,
        run: &RunFile,
        rows: &Rows,
        run_dir: &Path,
    ) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        if let Some(other) = self.saved.iter().find(|saved| saved.algorithm != run.algorithm) {
            found.push(format!(
                "run.json: algorithm is {:?}, but {} has {:?}",
                run.algorithm, other.name, other.algorithm
            ));
        }
        let env = Value::from(run.env.as_str());
        if let Some(other) = self.saved.iter().find(|saved| saved.config.get("env") != Some(&env)) {
            let there = other.config.get("env").unwrap_or(&Value::Null);
            found.push(format!("run.json: env is {env}, but {} has {}", other.name, short(there)));
        }
        found.extend(self.against("run.json: config.", &run.config, None));
        let path = run_dir.join("params.json");
        if path.exists() {
            let text = read_file(&path).map_err(Error::io("read", &path))?;
            let last = self.saved.iter().map(|saved| saved.iteration).max().unwrap_or_default();
            match serde_json::from_slice::<Config>(&text) {
                Ok(params) => {
                    found.extend(self.against("params.json: ", &params, rows.settings_after(last).as_ref()))
                }
                Err(error) => found.push(format!("params.json is no JSON object: {error}")),
            }
        }
        Ok(found)
    }

    /// Describes the first setting of `config` that no checkpoint has: a resume changes settings from one checkpoint to the
    /// next, so one of them is enough. `later` has the settings of a process that has not written a checkpoint.
    fn against(&self, place: &str, config: &Config, later: Option<&Config>) -> Option<String> {
        if later == Some(config) || self.saved.iter().any(|saved| saved.config == *config) {
            return None;
        }
        let here = Value::from(config.clone());
        let differences = |saved: &Saved| {
            let mut all = Vec::new();
            walk("", &here, &Value::from(saved.config.clone()), &mut |key, here, there| {
                all.push(format!("{place}{key} is {}, but {} has {}", short(here), saved.name, short(there)));
            });
            all
        };
        // That which is most like it is the one that it was.
        let nearest = self.saved.iter().rev().map(differences).min_by_key(Vec::len)?;
        nearest.into_iter().next()
    }
}
