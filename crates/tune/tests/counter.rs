//! A trainable with one number of state that writes down the calls it gets.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pavlov_tune::{
    Config, Driver, Error, ExportFormat, LoggerChoice, Metrics, Result, Resume, RunOptions, Trainable,
    TrialContext,
};
use serde_json::{Map, Value, json};

pub(crate) type Calls = Arc<Mutex<Vec<String>>>;

/// Adds `config.by` (1 if absent) to `total` at each step.
#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) total: u64,
    pub(crate) by: u64,
    pub(crate) calls: Calls,
    /// Replaces the next result.
    pub(crate) next_result: Option<Metrics>,
    /// Fails the next step.
    pub(crate) fail_next: bool,
    /// Loads nothing.
    pub(crate) forgets: bool,
    /// Cannot `reset_config`.
    pub(crate) cannot_reset: bool,
    /// Written into each checkpoint besides the state.
    pub(crate) ballast: Vec<u8>,
    /// Dies in `save_checkpoint` after the files are written, as by `kill -9`.
    pub(crate) dies_while_saving: bool,
}

impl Counter {
    fn note(&self, call: impl Into<String>) {
        self.calls.lock().unwrap().push(call.into());
    }
}

impl Trainable for Counter {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.note(format!("setup {}", trial.trial_id));
        self.by = config.get("by").and_then(Value::as_u64).unwrap_or(1);
        Ok(())
    }

    fn step(&mut self) -> Result<Metrics> {
        self.note("step");
        if std::mem::take(&mut self.fail_next) {
            return Err(Error::other("the simulator is gone"));
        }
        self.total += self.by;
        let result = json!({"total": self.total, "timesteps_this_iter": 10, "episodes_this_iter": 2});
        Ok(self.next_result.take().unwrap_or_else(|| object(result)))
    }

    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.note("save_checkpoint");
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(Error::io("write", &path))
        };
        let folder = dir.join("state");
        fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
        write("state/total", &self.total.to_le_bytes())?;
        write("ballast", &self.ballast)?;
        if self.dies_while_saving {
            std::process::abort();
        }
        Ok(())
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.note("load_checkpoint");
        if !self.forgets {
            let path = dir.join("state/total");
            let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
            self.total = u64::from_le_bytes(bytes.as_slice().try_into().map_err(Error::other)?);
        }
        Ok(())
    }

    fn reset_config(&mut self, new: &Config) -> Result<bool> {
        self.note("reset_config");
        if self.cannot_reset {
            return Ok(false);
        }
        self.total = 0;
        self.by = new.get("by").and_then(Value::as_u64).unwrap_or(1);
        Ok(true)
    }

    fn cleanup(&mut self) -> Result<()> {
        self.note("cleanup");
        Ok(())
    }

    fn log_result(&mut self, result: &mut Metrics) -> Result<()> {
        self.note(format!("log_result {}", result["training_iteration"]));
        result.insert("seen_by_hook".into(), true.into());
        Ok(())
    }

    fn export_model(&mut self, format: ExportFormat, dir: &Path) -> Result<Option<PathBuf>> {
        self.note(format!("export_model {format}"));
        Ok((format == ExportFormat::Model).then(|| dir.join("model.bin")))
    }
}

pub(crate) fn object<T: From<Map<String, Value>>>(value: Value) -> T {
    match value {
        Value::Object(object) => object.into(),
        other => panic!("{other} is not an object"),
    }
}

/// A driver in memory only.
pub(crate) fn silent(counter: Counter) -> Driver<Counter> {
    let options = RunOptions { loggers: LoggerChoice::None, ..RunOptions::default() };
    Driver::with(counter, Config::new(), options).unwrap()
}

/// A driver that writes into `logdir`, with all loggers.
pub(crate) fn logged(counter: Counter, logdir: &Path) -> Driver<Counter> {
    let options =
        RunOptions { logdir: Some(logdir.into()), resume: Resume::ByCaller, ..RunOptions::default() };
    Driver::with(counter, Config::new(), options).unwrap()
}
