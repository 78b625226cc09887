//! The copies of an environment that a run trains on: native ones whose steps are told to callbacks, and those in Python.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use numpy::{PyArray1, PyArrayMethods};
use pavlov_envs::{AnyVectorEnv, DType, EnvCreator, Error, Frame, ResetOptions, Result, Space, StepOut};
use pyo3::prelude::*;
use serde_json::Value;

use crate::between::{Between, Stepped, array, copy_to};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Native copies; the run's callbacks are told of their steps.
struct Told {
    inner: Box<dyn AnyVectorEnv>,
    number: u64,
    between: Arc<Between>,
}

/// Makes native copies of `id` whose steps are kept for callbacks.
pub(crate) fn native(id: &str, between: Arc<Between>) -> EnvCreator {
    let name = id.to_owned();
    EnvCreator::new(id, move |config, num_envs| {
        let inner = pavlov_envs::make_vec(&name, config, num_envs)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Told { inner, number, between: between.clone() }))
    })
}

impl AnyVectorEnv for Told {
    fn num_envs(&self) -> usize {
        self.inner.num_envs()
    }

    fn observation_space(&self) -> &Space {
        self.inner.observation_space()
    }

    fn action_space(&self) -> &Space {
        self.inner.action_space()
    }

    fn obs_dtype(&self) -> DType {
        self.inner.obs_dtype()
    }

    fn act_dtype(&self) -> DType {
        self.inner.act_dtype()
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [u8]) -> Result<()> {
        self.inner.reset(seeds, obs)
    }

    fn step(&mut self, actions: &[u8], reset_seeds: Option<&[u64]>, mut out: StepOut<'_, u8>) -> Result<()> {
        self.inner.step(actions, reset_seeds, out.reborrow())?;
        let step = Stepped {
            actions,
            obs: out.obs,
            final_obs: out.final_obs,
            rewards: out.rewards,
            terminated: out.terminated,
            truncated: out.truncated,
        };
        self.between.add(self.number, &step);
        Ok(())
    }

    fn action_masks(&self, masks: &mut [bool]) -> bool {
        self.inner.action_masks(masks)
    }

    fn final_action_masks(&self, masks: &mut [bool]) -> bool {
        self.inner.final_action_masks(masks)
    }

    fn compute_rewards(
        &mut self,
        achieved_goals: &[f64],
        desired_goals: &[f64],
        rewards: &mut [f64],
    ) -> Result<bool> {
        self.inner.compute_rewards(achieved_goals, desired_goals, rewards)
    }

    fn info(&self, key: &str) -> Option<&[f64]> {
        self.inner.info(key)
    }

    fn info_value(&mut self, copy: usize, key: &str) -> Result<Option<Value>> {
        self.inner.info_value(copy, key)
    }

    fn remarks(&mut self) -> Result<Vec<String>> {
        self.inner.remarks()
    }

    fn max_episode_steps(&self) -> Option<usize> {
        self.inner.max_episode_steps()
    }

    fn limit_episodes(&mut self, steps: usize) -> bool {
        self.inner.limit_episodes(steps)
    }

    fn set_autoreset(&mut self, autoreset: bool) -> bool {
        self.inner.set_autoreset(autoreset)
    }

    fn set_task(&mut self, task: &Value) -> Result<()> {
        self.inner.set_task(task)
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.inner.set_reset_options(options)
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        if self.between.is_without_episodes() {
            return Ok(None);
        }
        self.inner.save_state()
    }

    fn can_load_state(&self) -> bool {
        self.inner.can_load_state()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.inner.load_state(state)
    }

    fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        self.inner.render(copy)
    }

    fn render_fps(&self) -> Option<f64> {
        self.inner.render_fps()
    }

    fn render_ansi(&mut self, copy: usize) -> Result<Option<String>> {
        self.inner.render_ansi(copy)
    }
}

/// The object that steps environments in Python, and what it says of them.
#[derive(Debug)]
pub(crate) struct InPython {
    pub(crate) name: String,
    pub(crate) stepper: Mutex<Py<PyAny>>,
    pub(crate) num_envs: usize,
    pub(crate) observation_space: Space,
    pub(crate) action_space: Space,
    /// Whether the environments say which actions are legal.
    pub(crate) has_masks: bool,
    /// Whether the episodes go on from one run to the next. Then a run that begins resets nothing, and one that is saved says
    /// so.
    pub(crate) goes_on: AtomicBool,
}

/// The state of copies in Python whose episodes go on in the next run: they are in the stepper, which both have.
const GOES_ON: &[u8] = b"the episodes go on in the stepper";

/// Makes vectors that are stepped by `told`. Only as many copies as it has can be stepped; vectors of another number
/// can be asked for their spaces.
pub(crate) fn in_python(told: Arc<InPython>, between: Arc<Between>) -> EnvCreator {
    EnvCreator::new(told.name.clone(), move |config, num_envs| {
        if let Some(key) = config.keys().next() {
            let message =
                format!("`{key}` is given, but the environment was made in Python; give it to that instead");
            return Err(Error::Config { env: told.name.clone(), message });
        }
        let masks = Mutex::new(None);
        Ok(Box::new(PythonCopies { told: told.clone(), num_envs, between: between.clone(), masks }))
    })
}

/// Copies that are stepped in Python, by the thread that trains.
struct PythonCopies {
    told: Arc<InPython>,
    num_envs: usize,
    between: Arc<Between>,
    /// The legal actions of the newest observations, if the environments tell them.
    masks: Mutex<Option<Vec<bool>>>,
}

impl PythonCopies {
    /// Works with the stepper while the interpreter's lock is held, whatever the number of copies.
    fn attached<T>(&self, work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        Python::attach(|py| {
            let stepper = self.told.stepper.lock().unwrap_or_else(PoisonError::into_inner).clone_ref(py);
            work(py, stepper.bind(py)).map_err(|raised| self.between.keep(raised))
        })
    }

    /// Calls a method of the stepper while the interpreter's lock is held.
    fn call<T>(&self, work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        if self.num_envs != self.told.num_envs {
            return Err(Error::Config {
                env: self.told.name.clone(),
                message: format!(
                    "{} copies are asked for, but {} were made in Python; evaluate with `evaluate_policy` or \
                     `EvalCallback`, and leave `num_workers` at 0",
                    self.num_envs, self.told.num_envs
                ),
            });
        }
        self.attached(work)
    }

    fn keep_masks(&self, stepper: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.told.has_masks {
            let masks: Vec<bool> = stepper.call_method0("masks")?.extract()?;
            *self.masks.lock().unwrap_or_else(PoisonError::into_inner) = Some(masks);
        }
        Ok(())
    }
}

impl AnyVectorEnv for PythonCopies {
    fn num_envs(&self) -> usize {
        self.num_envs
    }

    fn observation_space(&self) -> &Space {
        &self.told.observation_space
    }

    fn action_space(&self) -> &Space {
        &self.told.action_space
    }

    fn obs_dtype(&self) -> DType {
        self.told.observation_space.dtype()
    }

    fn act_dtype(&self) -> DType {
        self.told.action_space.dtype()
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [u8]) -> Result<()> {
        let dtype = self.obs_dtype();
        if self.told.goes_on.load(Ordering::Relaxed) {
            // The observations come with the state of the run.
            obs.fill(0);
            return self.call(|_, stepper| self.keep_masks(stepper));
        }
        self.call(|_, stepper| {
            let first = stepper.call_method1("reset", (seeds.map(<[u64]>::to_vec),))?;
            copy_to(&first, dtype, obs, "the observations")?;
            self.keep_masks(stepper)
        })
    }

    fn step(&mut self, actions: &[u8], reset_seeds: Option<&[u64]>, out: StepOut<'_, u8>) -> Result<()> {
        type Row<'py> = Bound<'py, PyAny>;
        let dtype = self.obs_dtype();
        let act_dtype = self.act_dtype();
        self.call(|py, stepper| {
            let actions = array(py, act_dtype, actions)?;
            let seeds = reset_seeds.map(<[u64]>::to_vec);
            let told = stepper.call_method1("step", (actions, seeds))?;
            let (obs, final_obs, rewards, terminated, truncated): (Row, Row, Row, Row, Row) =
                told.extract()?;
            copy_to(&obs, dtype, out.obs, "the observations")?;
            copy_to(&final_obs, dtype, out.final_obs, "the last observations")?;
            copy_to(&rewards, DType::F32, bytemuck::cast_slice_mut(out.rewards), "the rewards")?;
            flags(&terminated, out.terminated)?;
            flags(&truncated, out.truncated)?;
            self.keep_masks(stepper)
        })
    }

    fn action_masks(&self, masks: &mut [bool]) -> bool {
        match &*self.masks.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(told) if told.len() == masks.len() => {
                masks.copy_from_slice(told);
                true
            }
            _ => false,
        }
    }

    fn final_action_masks(&self, _masks: &mut [bool]) -> bool {
        false
    }

    fn compute_rewards(
        &mut self,
        achieved_goals: &[f64],
        desired_goals: &[f64],
        rewards: &mut [f64],
    ) -> Result<bool> {
        self.attached(|py, stepper| {
            let [achieved, desired] =
                [achieved_goals, desired_goals].map(|goals| PyArray1::from_slice(py, goals));
            let told = stepper.call_method1("compute_rewards", (achieved, desired, rewards.len()))?;
            if told.is_none() {
                return Ok(false);
            }
            copy_to(&told, DType::F64, bytemuck::cast_slice_mut(rewards), "the rewards of goals")?;
            Ok(true)
        })
    }

    fn info(&self, _key: &str) -> Option<&[f64]> {
        None
    }

    fn info_value(&mut self, _copy: usize, _key: &str) -> Result<Option<Value>> {
        Ok(None)
    }

    fn remarks(&mut self) -> Result<Vec<String>> {
        self.call(|_, stepper| stepper.getattr("remarks")?.extract())
    }

    fn max_episode_steps(&self) -> Option<usize> {
        None
    }

    fn limit_episodes(&mut self, _steps: usize) -> bool {
        false
    }

    fn set_autoreset(&mut self, autoreset: bool) -> bool {
        autoreset
    }

    fn set_task(&mut self, _task: &Value) -> Result<()> {
        Err(Error::Unsupported {
            env: self.told.name.clone(),
            what: "task that a run can set",
            way_out: "change it in Python, for instance in a callback",
        })
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        if options.is_empty() {
            return Ok(());
        }
        Err(Error::Unsupported {
            env: self.told.name.clone(),
            what: "`reset_options`",
            way_out: "give them in Python, for instance in a wrapper's `reset`",
        })
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.told.goes_on.load(Ordering::Relaxed).then(|| GOES_ON.to_vec()))
    }

    fn can_load_state(&self) -> bool {
        self.told.goes_on.load(Ordering::Relaxed)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        if state == GOES_ON && self.told.goes_on.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message = format!("{} bytes are given, but an environment in Python has no state", state.len());
        Err(Error::State { message })
    }

    fn render(&mut self, _copy: usize) -> Result<Option<Frame>> {
        Ok(None)
    }

    fn render_fps(&self) -> Option<f64> {
        None
    }

    fn render_ansi(&mut self, _copy: usize) -> Result<Option<String>> {
        Ok(None)
    }
}

/// Copies flags of a numpy array.
fn flags(from: &Bound<'_, PyAny>, to: &mut [bool]) -> PyResult<()> {
    let array = from.cast::<numpy::PyArray1<bool>>()?.readonly();
    let flags = array.as_slice()?;
    if flags.len() != to.len() {
        let message = format!("{} flags were given for {} copies", flags.len(), to.len());
        return Err(pyo3::exceptions::PyValueError::new_err(message));
    }
    to.copy_from_slice(flags);
    Ok(())
}
