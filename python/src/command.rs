//! The command `pavlov`, and what Python asks of the library besides environments and runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use pavlov::processes::set_child_command;
use pavlov::tune::loggers::{Logger, TensorBoardLogger};
use pavlov::tune::rollout_main;
use pavlov::tune::{Metrics, checkpoint};
use pavlov::{presets, registry};
use pyo3::prelude::*;
use serde_json::Value;

use crate::fault::raised;

/// Runs the command with these arguments, the first of them its name; returns its exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = py.detach(|| pavlov::cli::main_from(arguments));
    // An `ExitCode` does not say its number.
    (0..=u8::MAX).find(|number| code == ExitCode::from(*number)).unwrap_or(1)
}

/// Says how rollout workers in processes are started: by this Python, whose process then calls [`rollout_worker`].
pub(crate) fn start_workers_with_python(py: Python<'_>) -> PyResult<()> {
    let python: OsString = py.import("sys")?.getattr("executable")?.extract()?;
    let program = "from pavlov_rl._native import rollout_worker; rollout_worker()";
    set_child_command([python, "-c".into(), program.into()]);
    // This is no worker, so the call only says which algorithms have workers.
    rollout_main(registry::trainable);
    Ok(())
}

/// Runs a rollout worker in this process, and ends the process with it.
#[pyfunction]
pub(crate) fn rollout_worker(py: Python<'_>) {
    py.detach(|| rollout_main(registry::trainable));
}

/// The settings of a preset, in JSON.
#[pyfunction]
pub(crate) fn preset(py: Python<'_>, name: &str) -> PyResult<String> {
    let preset = presets::preset(name).map_err(|error| raised(py, error))?;
    Ok(Value::from(preset.config).to_string())
}

/// Every setting of an algorithm with its default, in JSON.
#[pyfunction]
pub(crate) fn defaults(py: Python<'_>, algorithm: &str) -> PyResult<String> {
    let entry = registry::algorithm(algorithm).map_err(|error| raised(py, error))?;
    let config = entry.default_config().map_err(|error| raised(py, error))?;
    Ok(Value::from(config).to_string())
}

/// The newest whole checkpoint of a run directory; `None` if it has none.
#[pyfunction]
pub(crate) fn latest_checkpoint(py: Python<'_>, run: PathBuf) -> PyResult<Option<PathBuf>> {
    checkpoint::latest(&run).map_err(|error| raised(py, error))
}

/// A file of scalars for TensorBoard.
#[pyclass(frozen, module = "pavlov_rl._native")]
pub(crate) struct NativeEvents(Mutex<TensorBoardLogger>);

#[pymethods]
impl NativeEvents {
    /// Makes a new file in `folder`, which exists.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let logger = TensorBoardLogger::open(&folder).map_err(|error| raised(py, error))?;
        Ok(Self(Mutex::new(logger)))
    }

    /// Adds numbers by name at a step. Those that are not finite are left out.
    fn add(&self, py: Python<'_>, values: Vec<(String, f64)>, step: u64) -> PyResult<()> {
        let mut result: Metrics = values.into_iter().map(|(name, value)| (name, value.into())).collect();
        result.insert("timesteps_total".into(), step.into());
        let mut logger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logger.on_result(&result).map_err(|error| raised(py, error))
    }
}
