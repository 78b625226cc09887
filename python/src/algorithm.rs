//! A run of an algorithm, as a Python class.

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pavlov::registry::{self, AnyAlgorithm};
use pavlov::trainer::Session;
use pavlov::tune::config::Layer;
use pavlov::tune::{Config, Driver, LoggerChoice, RunOptions};
use pavlov_envs::{DType, EnvCreator, Space};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use serde_json::Value;

use crate::between::Between;
use crate::command::start_workers_with_python;
use crate::fault::{Fault, Result, guarded, raised};
use crate::fork::{is_forked, refuse_after_fork};
use crate::session::{Asked, act, actions_array};
use crate::trained::{InPython, in_python, native};
use crate::weights;

type Run = Driver<Box<dyn AnyAlgorithm>>;

/// Scalars of an observation, and of a step's observations and actions, which no wrapper has changed.
type Dtypes = (DType, DType, DType);

/// A run of an algorithm: it trains, acts, saves and restores.
#[pyclass(frozen, module = "pavlov_rl._native")]
pub(crate) struct NativeAlgorithm {
    state: Mutex<ManuallyDrop<State>>,
    between: Arc<Between>,
    /// The environments, if they are in Python.
    told: Option<Arc<InPython>>,
    dtypes: Dtypes,
    /// Scalars of an observation.
    obs_width: usize,
    #[pyo3(get)]
    observation_space: String,
    #[pyo3(get)]
    action_space: String,
    #[pyo3(get)]
    logdir: PathBuf,
}

struct State {
    run: Run,
    /// Sessions by their number of copies, since the weights changed last.
    sessions: Vec<(usize, Session)>,
    /// Whether the last iteration failed, so that the environments are in the middle of something.
    has_failed: bool,
}

impl State {
    /// Starts new episodes after an iteration that failed.
    fn recover(&mut self) -> Result<()> {
        if self.has_failed {
            let saved = self.run.save_to_object()?;
            self.run.restore_from_object(&saved)?;
            self.sessions.clear();
            self.has_failed = false;
        }
        Ok(())
    }

    fn session(&mut self, copies: usize) -> Result<&mut Session> {
        let at = match self.sessions.iter().position(|(number, _)| *number == copies) {
            Some(at) => at,
            None => {
                let session = self.run.session(copies)?;
                self.sessions.push((copies, session));
                self.sessions.len() - 1
            }
        };
        Ok(&mut self.sessions[at].1)
    }
}

impl Drop for NativeAlgorithm {
    /// Ends the run. In a process that was forked it has no threads to end.
    fn drop(&mut self) {
        if !is_forked() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: nothing uses the state after this.
            unsafe { ManuallyDrop::drop(state) }
        }
    }
}

impl NativeAlgorithm {
    fn lock(&self) -> Result<MutexGuard<'_, ManuallyDrop<State>>> {
        refuse_after_fork()?;
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Fault::busy(
                "the model is learning; wait until `learn` returns, or use it in a callback, which is called between \
                 iterations",
            )),
        }
    }

    /// Works on the run without the interpreter's lock. An exception of an environment in Python is raised as itself.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State) -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut state = self.lock()?;
            guarded(|| work(&mut state))
        });
        let exception = self.between.take_raised();
        done.map_err(|fault| exception.unwrap_or_else(|| raised(py, fault)))
    }
}

/// Reads `[[origin, settings], ...]`.
fn layers(text: &str) -> Result<Vec<Layer>> {
    let layers: Vec<(String, Config)> = serde_json::from_str(text)
        .map_err(|error| Fault::config(format!("the settings {text} are no layers: {error}")))?;
    Ok(layers.into_iter().map(|(origin, values)| Layer { origin, values }).collect())
}

fn space(text: &str) -> Result<Space> {
    let space: Space = serde_json::from_str(text)
        .map_err(|error| Fault::config(format!("the space {text} cannot be used: {error}")))?;
    space.validate()?;
    Ok(space)
}

#[pymethods]
impl NativeAlgorithm {
    /// Makes a run that is ready to train. `settings` is a list of layers, the later of which override the earlier ones.
    /// `in_python` is what steps environments in Python, with the spaces of one, their number, and whether there are
    /// action masks; without it `env` is the id of a native environment. Results are written to `logdir`, if it is given.
    #[new]
    fn new(
        py: Python<'_>,
        algorithm: &str,
        env: &str,
        settings: &str,
        in_python: Option<(Py<PyAny>, String, String, usize, bool)>,
        logdir: Option<PathBuf>,
    ) -> PyResult<Self> {
        let between = Arc::new(Between::default());
        let told = match in_python {
            None => None,
            Some((stepper, observations, actions, num_envs, has_masks)) => {
                let spaces = space(&observations).and_then(|obs| Ok((obs, space(&actions)?)));
                let (observation_space, action_space) = spaces.map_err(|fault| raised(py, fault))?;
                Some(Arc::new(InPython {
                    name: env.to_owned(),
                    stepper: Mutex::new(stepper),
                    num_envs,
                    observation_space,
                    action_space,
                    has_masks,
                }))
            }
        };
        let creator = match &told {
            None => native(env, between.clone()),
            Some(told) => self::in_python(told.clone(), between.clone()),
        };
        refuse_after_fork().map_err(|fault| raised(py, fault))?;
        start_workers_with_python(py)?;
        let made = py.detach(|| guarded(|| make(algorithm, creator, settings, logdir)));
        let (run, observations, actions, dtypes) =
            made.map_err(|fault| between.take_raised().unwrap_or_else(|| raised(py, fault)))?;
        Ok(Self {
            observation_space: crate::vector::json(py, &observations)?,
            action_space: crate::vector::json(py, &actions)?,
            obs_width: observations.width(),
            dtypes,
            logdir: run.logdir().to_owned(),
            state: Mutex::new(ManuallyDrop::new(State { run, sessions: Vec::new(), has_failed: false })),
            between,
            told,
        })
    }

    /// All settings of the run, in JSON.
    fn config(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |state| Ok(Value::from(state.run.get_config().clone()).to_string()))
    }

    /// Trains one iteration; returns its result in JSON.
    fn train(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |state| {
            state.recover()?;
            state.sessions.clear();
            state.has_failed = true;
            let result = state.run.train()?;
            state.has_failed = false;
            Ok(Value::from(result).to_string())
        })
    }

    /// Environment steps of the iterations so far.
    fn timesteps(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| {
            let total = state.run.last_result().and_then(|result| result.get("timesteps_total"));
            Ok(total.and_then(Value::as_u64).unwrap_or(0))
        })
    }

    /// Begins to keep the steps of the copies, or ends it.
    fn record(&self, is_on: bool) {
        self.between.record(is_on);
    }

    /// Takes the steps that were kept: `actions, obs, rewards, terminated, truncated, ended, final_obs`, all flat.
    fn take_steps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.between.take_steps(py, self.dtypes.1, self.dtypes.2)
    }

    /// Chooses an action for each of `copies` rows of `obs`. A recurrent policy remembers what each copy saw, until an
    /// episode of it `starts` or it learns.
    #[pyo3(signature = (obs, copies, explore, starts = None, masks = None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        copies: usize,
        explore: bool,
        starts: Option<Vec<bool>>,
        masks: Option<Vec<bool>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let row = (self.dtypes.0, self.obs_width);
        let asked = Asked::new(obs, row, copies, explore, starts, masks);
        let asked = asked.map_err(|fault| raised(py, fault))?;
        let actions = self.with(py, |state| act(state.session(copies)?, &asked))?;
        actions_array(py, actions)
    }

    /// The weights of all policies by name.
    fn get_weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let now = self.with(py, |state| Ok(state.run.get_weights()?))?;
        weights::to_python(py, &now)
    }

    /// Replaces those weights that `given` has.
    fn set_weights(&self, py: Python<'_>, given: &Bound<'_, PyDict>) -> PyResult<()> {
        let now = self.with(py, |state| Ok(state.run.get_weights()?))?;
        let new = weights::from_python(py, &now, given)?;
        self.with(py, |state| {
            state.sessions.clear();
            Ok(state.run.set_weights(&new)?)
        })
    }

    /// Writes a checkpoint into the run's directory, or as a directory in `parent`; returns its path.
    #[pyo3(signature = (parent = None))]
    fn save(&self, py: Python<'_>, parent: Option<PathBuf>) -> PyResult<PathBuf> {
        self.with(py, |state| {
            state.recover()?;
            Ok(match &parent {
                None => state.run.save()?,
                Some(parent) => state.run.save_to(parent)?,
            })
        })
    }

    /// Continues from a checkpoint.
    fn restore(&self, py: Python<'_>, checkpoint: PathBuf) -> PyResult<()> {
        self.with(py, |state| {
            state.sessions.clear();
            state.run.restore(&checkpoint)?;
            state.has_failed = false;
            Ok(())
        })
    }

    /// Takes the policy of a checkpoint, and nothing else.
    fn restore_policies(&self, py: Python<'_>, checkpoint: PathBuf) -> PyResult<()> {
        self.with(py, |state| {
            state.sessions.clear();
            Ok(state.run.restore_policies(&checkpoint)?)
        })
    }

    /// A checkpoint as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |state| {
            state.recover()?;
            Ok(state.run.save_to_object()?)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Continues from the bytes of a checkpoint.
    fn load_bytes(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        self.with(py, |state| {
            state.sessions.clear();
            state.run.restore_from_object(bytes)?;
            state.has_failed = false;
            Ok(())
        })
    }

    /// Steps other environments in Python from the next episode on, which are as many and have the same spaces.
    fn set_stepper(&self, py: Python<'_>, stepper: Py<PyAny>) -> PyResult<()> {
        if let Some(told) = &self.told {
            self.with(py, |state| {
                *told.stepper.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = stepper;
                // Its episodes begin anew, as after a failure.
                state.has_failed = true;
                state.recover()
            })?;
        }
        Ok(())
    }

    /// Closes the files of the run, and ends its workers.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| Ok(state.run.stop()?))
    }
}

/// The resources that a trial with these layers of settings needs, in JSON: their amounts by name.
#[pyfunction]
pub(crate) fn resources(py: Python<'_>, algorithm: &str, env: &str, settings: &str) -> PyResult<String> {
    let needed = guarded(|| {
        let entry = registry::algorithm(algorithm)?;
        let config = entry.resolve(layers(settings)?)?.config;
        let trainable = entry.as_trainable(EnvCreator::from(env), Config::new());
        let needed = trainable.resources(&config)?.required();
        serde_json::to_string(&needed)
            .map_err(|error| Fault::config(format!("the resources cannot be told: {error}")))
    });
    needed.map_err(|fault| raised(py, fault))
}

/// Builds the run; also returns the spaces of its environment and the scalar types.
fn make(
    algorithm: &str,
    env: EnvCreator,
    settings: &str,
    logdir: Option<PathBuf>,
) -> Result<(Run, Space, Space, Dtypes)> {
    let entry = registry::algorithm(algorithm)?;
    let config = entry.resolve(layers(settings)?)?.config;
    let env_config = config.get("env_config").and_then(Value::as_object).cloned().unwrap_or_default();
    let wrappers = config.get("wrappers").cloned().unwrap_or_default();
    let wrappers = if wrappers.is_null() { Vec::new() } else { wrappers_of(wrappers)? };
    let bare = env.make_vec(&env_config, 1)?;
    let (bare_obs, act) = (bare.obs_dtype(), bare.act_dtype());
    drop(bare);
    let copy = env.wrapped(&wrappers).make_vec(&env_config, 1)?;
    let spaces = (copy.observation_space().clone(), copy.action_space().clone());
    let dtypes = (copy.obs_dtype(), bare_obs, act);
    drop(copy);
    let loggers = if logdir.is_some() { LoggerChoice::Default } else { LoggerChoice::None };
    let options = RunOptions { logdir, loggers, ..RunOptions::default() };
    let run = entry.build(env, config, options)?;
    Ok((run, spaces.0, spaces.1, dtypes))
}

fn wrappers_of(value: Value) -> Result<Vec<pavlov_envs::WrapperSpec>> {
    serde_json::from_value(value)
        .map_err(|error| Fault::config(format!("`wrappers` cannot be read: {error}")))
}
