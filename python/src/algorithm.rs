//! A run of an algorithm, as a Python class.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use numpy::PyReadonlyArray1;
use pavlov::registry::{self, AnyAlgorithm};
use pavlov::trainer::Snapshot;
use pavlov::trainer::state::State as Saved;
use pavlov::tune::config::Layer;
use pavlov::tune::{Config, Driver, LoggerChoice, Resume, RunOptions};
use pavlov_envs::{DType, EnvCreator, Space};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use serde_json::Value;

use crate::between::Between;
use crate::command::start_workers_with_python;
use crate::fault::{Fault, Result, guarded, raised};
use crate::fork::{is_forked, refuse_after_fork};
use crate::session::Actor;
use crate::trained::{InPython, in_python, native};
use crate::weights;

type Run = Driver<Box<dyn AnyAlgorithm>>;

/// Scalars of a step's observations and actions, which no wrapper has changed.
type Dtypes = (DType, DType);

/// A run of an algorithm: it trains, acts, saves and restores.
#[pyclass(frozen, module = "pavlov_rl._native")]
pub(crate) struct NativeAlgorithm {
    state: Mutex<ManuallyDrop<State>>,
    /// The policy as it was after the last update, for other threads while the run is at work. It is always locked after
    /// `state`, or without waiting for it.
    acting: Mutex<Acting>,
    /// Whether `state` is locked for work that may step environments.
    is_at_work: AtomicBool,
    seed: u64,
    between: Arc<Between>,
    /// The environments, if they are in Python.
    told: Option<Arc<InPython>>,
    dtypes: Dtypes,
    #[pyo3(get)]
    observation_space: String,
    #[pyo3(get)]
    action_space: String,
    #[pyo3(get)]
    logdir: PathBuf,
}

struct State {
    run: Run,
    /// Whether the last iteration failed, so that the environments are in the middle of something.
    has_failed: bool,
}

impl State {
    /// Starts new episodes after an iteration that failed.
    fn recover(&mut self) -> Result<()> {
        if self.has_failed {
            let saved = self.run.save_to_object()?;
            self.run.restore_from_object(&saved)?;
            self.has_failed = false;
        }
        Ok(())
    }
}

/// The policy that `predict` acts by.
enum Acting {
    /// The run has another one by now.
    Stale,
    Taken(Box<Snapshot>),
    Built(Arc<Actor>),
}

/// What a piece of work does with the run.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    Reads,
    /// It changes the policy.
    Changes,
    /// It may change the policy and step environments, which may call `predict`.
    Steps,
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
        loop {
            match self.state.try_lock() {
                Ok(state) => return Ok(state),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if self.is_at_work.load(Ordering::Acquire) => {
                    return Err(Fault::busy(
                        "the model is learning; wait until `learn` returns, or use it in a callback, which is called \
                         between iterations",
                    ));
                }
                // Another thread reads or writes weights.
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn acting(&self) -> MutexGuard<'_, Acting> {
        self.acting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy after the last update, which is built when it is first asked for.
    fn actor(&self) -> Result<Arc<Actor>> {
        refuse_after_fork()?;
        loop {
            let mut acting = self.acting();
            let built = match &*acting {
                Acting::Built(actor) => return Ok(actor.clone()),
                Acting::Taken(snapshot) => self.build(snapshot)?,
                Acting::Stale => match self.state.try_lock() {
                    Ok(state) => self.build(&state.run.snapshot()?)?,
                    Err(TryLockError::Poisoned(poisoned)) => {
                        self.build(&poisoned.into_inner().run.snapshot()?)?
                    }
                    Err(TryLockError::WouldBlock) => {
                        drop(acting);
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    }
                },
            };
            *acting = Acting::Built(built.clone());
            return Ok(built);
        }
    }

    fn build(&self, snapshot: &Snapshot) -> Result<Arc<Actor>> {
        Ok(Arc::new(Actor::new(snapshot.load()?, self.seed, snapshot.timestep())))
    }

    /// Works on the run without the interpreter's lock. An exception of an environment in Python is raised as itself.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        kind: Work,
        work: impl FnOnce(&mut State) -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut state = self.lock()?;
            if kind == Work::Steps {
                let mut acting = self.acting();
                if matches!(*acting, Acting::Stale) {
                    *acting = Acting::Taken(state.run.snapshot()?.into());
                }
                drop(acting);
                self.is_at_work.store(true, Ordering::Release);
            }
            let done = guarded(|| work(&mut state));
            if kind != Work::Reads {
                *self.acting() = Acting::Stale;
            }
            self.is_at_work.store(false, Ordering::Release);
            done
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
    /// With `goes_on` the episodes in Python are those of another run, whose bytes are loaded next.
    #[new]
    #[pyo3(signature = (algorithm, env, settings, in_python, logdir, goes_on = false))]
    fn new(
        py: Python<'_>,
        algorithm: &str,
        env: &str,
        settings: &str,
        in_python: Option<(Py<PyAny>, String, String, usize, bool)>,
        logdir: Option<PathBuf>,
        goes_on: bool,
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
                    goes_on: goes_on.into(),
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
            dtypes,
            logdir: run.logdir().to_owned(),
            seed: run.get_config().get("seed").and_then(Value::as_u64).unwrap_or_default(),
            state: Mutex::new(ManuallyDrop::new(State { run, has_failed: false })),
            acting: Acting::Stale.into(),
            is_at_work: AtomicBool::new(false),
            between,
            told,
        })
    }

    /// All settings of the run, in JSON.
    fn config(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, Work::Reads, |state| Ok(Value::from(state.run.get_config().clone()).to_string()))
    }

    /// Trains one iteration; returns its result in JSON.
    fn train(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, Work::Steps, |state| {
            state.recover()?;
            state.has_failed = true;
            let result = state.run.train()?;
            state.has_failed = false;
            Ok(Value::from(result).to_string())
        })
    }

    /// Environment steps of the iterations so far.
    fn timesteps(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, Work::Reads, |state| {
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
        self.between.take_steps(py, self.dtypes.0, self.dtypes.1)
    }

    /// The memory of a recurrent policy, as in `NativePolicy`.
    #[getter]
    fn memory(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        let actor = py.detach(|| guarded(|| self.actor())).map_err(|fault| raised(py, fault))?;
        Ok((actor.policy.memory_width(), actor.policy.memory_parts()))
    }

    /// Chooses an action for each of the rows of `obs`; returns the actions and the memory after them. While another thread
    /// trains, the weights are those of the last update.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        rows: usize,
        explore: bool,
        masks: Option<Vec<bool>>,
        memory: Option<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let actor = py.detach(|| guarded(|| self.actor())).map_err(|fault| raised(py, fault))?;
        actor.predict(py, obs, rows, (explore, masks, memory))
    }

    /// The states of all policies: their weights, target networks and optimizers as arrays by name, and the values beside
    /// them in JSON.
    fn get_states<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyDict>, String)> {
        let now = self.with(py, Work::Reads, |state| Ok(state.run.get_policy_states()?))?;
        weights::to_python(py, &now)
    }

    /// Replaces those arrays and values of the states that are given. The rest of the run goes on.
    fn set_states(&self, py: Python<'_>, given: &Bound<'_, PyDict>, values: &str) -> PyResult<()> {
        let now = self.with(py, Work::Reads, |state| Ok(state.run.get_policy_states()?))?;
        let new = weights::from_python(py, &now, given, values)?;
        self.with(py, Work::Changes, |state| Ok(state.run.set_policy_states(&new)?))
    }

    /// Writes the replay buffers into files in the directory `to`.
    fn save_replay_buffers(&self, py: Python<'_>, to: PathBuf) -> PyResult<()> {
        self.with(py, Work::Reads, |state| {
            let buffers = state.run.get_replay_buffers()?;
            Ok(buffers.iter().try_for_each(|(id, buffer)| buffer.write(&to, id))?)
        })
    }

    /// Takes the replay buffers of the policies `ids` from files in the directory `source`. The rest of the run goes on.
    /// `truncate_last_traj` ends the episodes that were running when they were saved.
    fn load_replay_buffers(
        &self,
        py: Python<'_>,
        source: PathBuf,
        ids: Vec<String>,
        truncate_last_traj: bool,
    ) -> PyResult<()> {
        self.with(py, Work::Reads, |state| {
            let read = ids.into_iter().map(|id| Saved::read(&source, &id).map(|buffer| (id, buffer)));
            let mut buffers = read.collect::<Result<BTreeMap<_, _>, _>>()?;
            for buffer in buffers.values_mut() {
                buffer.set("end_episodes", &truncate_last_traj)?;
            }
            Ok(state.run.set_replay_buffers(&buffers)?)
        })
    }

    /// Writes a checkpoint into the run's directory, or as a directory in `parent`; returns its path.
    #[pyo3(signature = (parent = None))]
    fn save(&self, py: Python<'_>, parent: Option<PathBuf>) -> PyResult<PathBuf> {
        self.with(py, Work::Steps, |state| {
            state.recover()?;
            Ok(match &parent {
                None => state.run.save()?,
                Some(parent) => state.run.save_to(parent)?,
            })
        })
    }

    /// Continues from a checkpoint.
    fn restore(&self, py: Python<'_>, checkpoint: PathBuf) -> PyResult<()> {
        self.with(py, Work::Steps, |state| {
            state.run.restore(&checkpoint)?;
            state.has_failed = false;
            Ok(())
        })
    }

    /// Takes the policy of a checkpoint, and nothing else.
    fn restore_policies(&self, py: Python<'_>, checkpoint: PathBuf) -> PyResult<()> {
        self.with(py, Work::Changes, |state| Ok(state.run.restore_policies(&checkpoint)?))
    }

    /// A checkpoint as bytes. With `goes_on` another run of this process continues it in the middle of the episodes in
    /// Python. With `new_episodes` it leaves the episodes out, and whoever loads it starts new ones.
    #[pyo3(signature = (goes_on = false, new_episodes = false))]
    fn to_bytes<'py>(
        &self,
        py: Python<'py>,
        goes_on: bool,
        new_episodes: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, Work::Steps, |state| {
            state.recover()?;
            let going =
                |is_so| self.told.iter().for_each(|told| told.goes_on.store(is_so, Ordering::Relaxed));
            going(goes_on);
            self.between.leave_episodes_out(new_episodes);
            let bytes = state.run.save_to_object();
            going(false);
            self.between.leave_episodes_out(false);
            Ok(bytes?)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Continues from the bytes of a checkpoint.
    fn load_bytes(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        self.with(py, Work::Steps, |state| {
            state.run.restore_from_object(bytes)?;
            self.told.iter().for_each(|told| told.goes_on.store(false, Ordering::Relaxed));
            state.has_failed = false;
            Ok(())
        })
    }

    /// Steps other environments in Python from the next episode on, which are as many and have the same spaces.
    fn set_stepper(&self, py: Python<'_>, stepper: Py<PyAny>) -> PyResult<()> {
        if let Some(told) = &self.told {
            self.with(py, Work::Steps, |state| {
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
        self.with(py, Work::Reads, |state| Ok(state.run.stop()?))
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
    let dtypes = (bare.obs_dtype(), bare.act_dtype());
    drop(bare);
    let copy = env.wrapped(&wrappers).make_vec(&env_config, 1)?;
    let spaces = (copy.observation_space().clone(), copy.action_space().clone());
    drop(copy);
    let loggers = if logdir.is_some() { LoggerChoice::Default } else { LoggerChoice::None };
    let options = RunOptions { logdir, resume: Resume::ByCaller, loggers, ..RunOptions::default() };
    let run = entry.build(env, config, options)?;
    Ok((run, spaces.0, spaces.1, dtypes))
}

fn wrappers_of(value: Value) -> Result<Vec<pavlov_envs::WrapperSpec>> {
    serde_json::from_value(value)
        .map_err(|error| Fault::config(format!("`wrappers` cannot be read: {error}")))
}
