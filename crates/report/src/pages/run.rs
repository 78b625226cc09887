//! What the files of a run say of it. Nothing is written, and no program or module that they name is run.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::lines::visit_lines;
use super::records::Records;
use crate::doctor::{self, Finding, Saved};
use pavlov_tune::loggers::flatten;
use pavlov_tune::{Config, Error, SweepFile, checkpoint, read_file};

/// A run as its directory describes it.
#[derive(Debug)]
pub struct Run {
    /// Name of the directory.
    pub(super) name: String,
    pub(super) dir: PathBuf,
    /// Name of the algorithm; `None` if no file of the run says it.
    pub algorithm: Option<String>,
    /// Id of the environment; `None` if no file of the run says it.
    pub env: Option<String>,
    /// Version of pavlov that began the run.
    pub(super) pavlov: Option<String>,
    /// Result keys, each with the value that ends the run.
    pub stop: Config,
    /// Settings of the run, without its environment; empty if no file of the run has them.
    pub config: Config,
    pub(super) records: Records,
    /// The newest whole checkpoint; `None` if the run has none.
    pub newest: Option<Newest>,
}

/// The newest whole checkpoint of a run.
#[derive(Debug)]
pub struct Newest {
    /// Directory of the checkpoint.
    pub path: PathBuf,
    pub(super) iteration: u64,
    pub(super) created: String,
    /// SHA-256 of the state.
    pub(super) hash: Option<String>,
}

/// How a run ended, as far as its files say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    /// A stop criterion was met.
    Finished,
    /// It was stopped, and its last result is saved.
    Stopped,
    /// No checkpoint has its last result.
    Unsaved,
}

impl Run {
    /// Reads the run in `dir`.
    ///
    /// # Errors
    /// Fails if there is no `result.json` that can be read.
    pub fn read(dir: &Path) -> Result<Run, Error> {
        Ok(Run::of(dir, Records::read(dir)?, newest(dir)))
    }

    /// The run in `dir` with these results.
    pub(super) fn of(dir: &Path, records: Records, newest: Option<Newest>) -> Run {
        let begun: Value = object(&dir.join("run.json"));
        let text = |key: &str| begun[key].as_str().map(str::to_owned);
        let mut run = Run {
            name: name_of(dir),
            dir: dir.into(),
            algorithm: text("algorithm"),
            env: text("env"),
            pavlov: text("pavlov"),
            stop: begun["stop"].as_object().cloned().unwrap_or_default().into(),
            config: records.config.clone(),
            records,
            newest,
        };
        if run.config.is_empty() {
            run.config = begun["config"].as_object().cloned().unwrap_or_default().into();
        }
        if run.config.is_empty() {
            run.config = object(&dir.join("params.json")).as_object().cloned().unwrap_or_default().into();
        }
        let sweep = dir.parent().map(|sweep| sweep.join("sweep.toml")).filter(|file| file.is_file());
        if let (None, Some(Ok(sweep))) = (&run.algorithm, sweep.map(SweepFile::load)) {
            run.algorithm = Some(sweep.algorithm);
            run.env = run.env.or(sweep.env);
            run.stop = sweep.stop;
        }
        run.env = run.env.or_else(|| Some(run.config.get("env")?.as_str()?.to_owned()));
        run.config.shift_remove("env");
        run
    }

    /// Directory of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the run is, for headings.
    pub(super) fn title(&self) -> String {
        match (&self.algorithm, &self.env) {
            (Some(algorithm), Some(env)) => format!("{algorithm} on {env}"),
            (Some(name), None) | (None, Some(name)) => name.clone(),
            (None, None) => self.name.clone(),
        }
    }

    /// The mean return that counts as solved: Gymnasium's, or else the one that ends the run.
    pub(super) fn asked(&self) -> Option<f64> {
        // Ids with a prefix belong to Python, which would have to run.
        let own = self.env.as_deref().filter(|env| !env.contains(':'));
        let threshold = own.and_then(|env| pavlov_envs::spec(env).ok()?.reward_threshold);
        threshold.or_else(|| {
            let keys = ["evaluation/episode_reward_mean", "episode_reward_mean"];
            keys.iter().find_map(|key| self.stop.get(*key)?.as_f64())
        })
    }

    /// The score at the end: the mean return of the last evaluation, or else the last number of the score.
    pub(super) fn score(&self) -> Option<f64> {
        let evaluated = self.records.last("evaluation/episode_reward_mean");
        evaluated.or_else(|| self.records.last(&self.records.score_key()))
    }

    /// The stop criterion that the last numbers meet.
    pub(super) fn met(&self) -> Option<String> {
        let is_met = |(key, limit): &(String, &Value)| {
            let met = limit.as_f64().zip(self.records.last(key)).map(|(limit, last)| last >= limit);
            met == Some(true)
        };
        flatten(&self.stop).into_iter().find(is_met).map(|(key, _)| key)
    }

    pub(super) fn end(&self) -> End {
        if self.met().is_some() {
            return End::Finished;
        }
        let last = self.records.last("training_iteration");
        match &self.newest {
            Some(newest) if last == Some(newest.iteration as f64) => End::Stopped,
            _ => End::Unsaved,
        }
    }

    /// What the rules of the doctor find in the run, or why they cannot read it.
    pub(super) fn findings(&self) -> Result<Vec<Finding>, String> {
        Ok(doctor::examine(&self.seen()?))
    }

    /// What the rules of the doctor see of the run. Unlike `doctor::read`, this only reads.
    pub(super) fn seen(&self) -> Result<doctor::Records, String> {
        let mut seen = doctor::Records::new(self.config.clone());
        // One result at a time, since all of a long run may be gigabytes.
        let read = visit_lines(&self.dir.join("result.json"), |line| {
            if let Ok(result) = serde_json::from_slice(line) {
                seen.add(&result);
            }
        });
        read.map_err(|error| error.to_string())?;
        seen.target = self.stop.get("timesteps_total").and_then(Value::as_f64);
        seen.saved = self.newest.as_ref().and_then(|newest| Saved::read(&newest.path).ok());
        Ok(seen)
    }
}

/// Name of a directory, also of one that is given as `.` or `..`.
pub(super) fn name_of(dir: &Path) -> String {
    let whole = std::path::absolute(dir).unwrap_or_else(|_| dir.into());
    whole.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The JSON in a file; null if there is none.
fn object(path: &Path) -> Value {
    if !path.is_file() {
        return Value::Null;
    }
    read_file(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// The newest whole checkpoint in `dir`. Unlike `checkpoint::latest`, which clears away what a killed process left, this
/// only reads.
fn newest(dir: &Path) -> Option<Newest> {
    let of = |(_, path): (u64, PathBuf)| {
        let manifest = object(&path.join("manifest.json"));
        let created = manifest["created"].as_str().unwrap_or_default().to_owned();
        (manifest["number"].as_u64(), created, path)
    };
    let mut all: Vec<_> = checkpoint::list(dir).ok()?.into_iter().map(of).collect();
    all.sort();
    all.into_iter().rev().find_map(|(_, created, path)| {
        let hash = checkpoint::verify(&path, None).ok()?.hash;
        let iteration = checkpoint::metadata(&path).ok()?.iteration;
        Some(Newest { path, iteration, created, hash: hash.map(|hash| hash.state) })
    })
}
