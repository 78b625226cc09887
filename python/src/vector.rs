//! Copies of an environment with one agent, as a Python class.

use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods, ndarray::Array3};
use pavlov_envs::{DType, EnvConfig, Frame, Space};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    blocks::Autoreset,
    copies::Copies,
    fault::{Fault, Result, guarded, raised},
    memory::Scalars,
};

/// Copies of a native environment. Arrays are read-only views of the memory that every step writes.
#[pyclass(frozen, module = "pavlov_rl._native")]
pub(crate) struct NativeVector {
    copies: Mutex<Copies>,
    num_envs: usize,
    /// Scalars of one action.
    act_width: usize,
    act_dtype: DType,
    /// Flags of one action mask.
    mask_width: usize,
    #[pyo3(get)]
    observation_space: String,
    #[pyo3(get)]
    action_space: String,
    #[pyo3(get)]
    render_fps: Option<f64>,
}

impl NativeVector {
    /// Works on the copies without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Copies) -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
            guarded(|| work(&mut copies))
        });
        done.map_err(|fault| raised(py, fault))
    }

    fn masks<'py>(
        &self,
        py: Python<'py>,
        write: impl FnOnce(&Copies, &mut [bool]) -> bool + Send,
    ) -> PyResult<Option<Bound<'py, PyArray2<i8>>>> {
        let shape = [self.num_envs, self.mask_width];
        if self.mask_width == 0 {
            return Ok(None);
        }
        let masks = self.with(py, |copies| {
            let mut masks = vec![false; shape[0] * shape[1]];
            Ok(write(copies, &mut masks).then_some(masks))
        })?;
        let Some(masks) = masks else { return Ok(None) };
        let masks: Vec<i8> = masks.into_iter().map(i8::from).collect();
        PyArray1::from_vec(py, masks).reshape(shape).map(Some)
    }
}

#[pymethods]
impl NativeVector {
    #[new]
    #[pyo3(signature = (id, num_envs, config, autoreset_mode, threads, max_episode_steps))]
    fn new(
        py: Python<'_>,
        id: &str,
        num_envs: usize,
        config: &str,
        autoreset_mode: &str,
        threads: usize,
        max_episode_steps: Option<usize>,
    ) -> PyResult<Self> {
        let made = py.detach(|| {
            guarded(|| {
                let config = settings(config)?;
                let autoreset = Autoreset::named(autoreset_mode)?;
                Copies::new(id, &config, num_envs, autoreset, threads, max_episode_steps)
            })
        });
        let copies = made.map_err(|fault| raised(py, fault))?;
        let action_space = copies.action_space();
        // Only discrete spaces have masks; others are never asked.
        let discrete = matches!(action_space, Space::Discrete { .. } | Space::MultiDiscrete { .. });
        Ok(Self {
            num_envs,
            act_width: action_space.width(),
            act_dtype: copies.act_dtype(),
            mask_width: if discrete { action_space.flat_width() } else { 0 },
            observation_space: json(py, copies.observation_space())?,
            action_space: json(py, action_space)?,
            render_fps: copies.render_fps(),
            copies: Mutex::new(copies),
        })
    }

    /// `obs, final_obs, rewards, terminated, truncated`: the memory that every step writes, a row per copy.
    fn arrays<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let this = slf.get();
        let copies = this.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let obs = [this.num_envs, copies.observation_space().width()];
        let rows = [this.num_envs];
        let owner = || slf.clone().into_any();
        // SAFETY: this object owns the memory as long as it lives. Flags are zeros, and the environments write `bool`s.
        unsafe {
            Ok(vec![
                copies.obs.array_of(copies.obs_dtype(), &obs, owner())?,
                copies.final_obs.array_of(copies.obs_dtype(), &obs, owner())?,
                copies.rewards.array::<f32>(&rows, owner())?,
                copies.terminated.array::<bool>(&rows, owner())?,
                copies.truncated.array::<bool>(&rows, owner())?,
            ])
        }
    }

    /// Starts episodes in all copies, or in those of `mask`; `options` is a JSON object.
    #[pyo3(signature = (seeds = None, mask = None, options = None))]
    fn reset(
        &self,
        py: Python<'_>,
        seeds: Option<Vec<Option<u64>>>,
        mask: Option<Vec<bool>>,
        options: Option<&str>,
    ) -> PyResult<()> {
        let options = options.map_or_else(|| Ok(Default::default()), settings);
        let options = options.map_err(|fault| raised(py, fault))?;
        self.with(py, |copies| copies.reset(seeds.as_deref(), mask.as_deref(), &options))
    }

    /// Whether the environment says which actions are legal.
    #[getter]
    fn has_action_masks(&self, py: Python<'_>) -> PyResult<bool> {
        let width = self.mask_width;
        self.with(py, |copies| Ok(width > 0 && copies.has_action_masks()))
    }

    /// Whether `step` and `save_state` are possible: `reset` or `load_state` came first, and no step failed.
    #[getter]
    fn is_running(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |copies| Ok(copies.is_running()))
    }

    /// Moves all copies; says whether an episode ended.
    fn step(&self, py: Python<'_>, actions: &Bound<'_, PyAny>) -> PyResult<bool> {
        let actions = Scalars::read(actions, self.act_dtype, self.num_envs * self.act_width, "`actions`");
        let actions = actions.map_err(|fault| raised(py, fault))?;
        self.with(py, |copies| copies.step(actions.bytes()))
    }

    /// Moves the only copy by an action that is one integer; gives reward, `terminated` and `truncated`.
    fn step_one(&self, py: Python<'_>, action: &Bound<'_, PyAny>) -> PyResult<(f32, bool, bool)> {
        let Ok(integer) = action.extract::<i64>() else {
            let text =
                action.repr().map_or_else(|_| "of a type without a text".to_owned(), |text| text.to_string());
            let space = self.with(py, |copies| Ok(copies.action_space().to_string()))?;
            return Err(raised(
                py,
                Fault::config(format!("the action is {text}, but it must be an integer in {space}")),
            ));
        };
        if self.num_envs != 1 || self.act_width != 1 || self.act_dtype != DType::I64 {
            return Err(raised(
                py,
                Fault::config("`step_one` is for one copy with a discrete action; call `step`"),
            ));
        }
        self.with(py, |copies| {
            copies.step(Scalars::integer(integer).bytes())?;
            Ok((copies.rewards.floats()[0], copies.terminated.bools()[0], copies.truncated.bools()[0]))
        })
    }

    /// Which actions are legal, `[num_envs, n]`; None where there are no masks.
    fn action_masks<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<i8>>>> {
        self.masks(py, Copies::action_masks)
    }

    /// Which actions were legal at the last observations of the episodes that ended in the last step; other rows mean nothing.
    fn final_action_masks<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<i8>>>> {
        self.masks(py, Copies::final_action_masks)
    }

    /// The names of the numbers of `info`; known after the first reset.
    fn info_keys(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        self.with(py, |copies| Ok(copies.info_keys()))
    }

    /// A number of `info` for every copy, NaN for one that has none.
    fn info<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let row = self.with(py, |copies| Ok(copies.info(key)))?;
        Ok(PyArray1::from_vec(py, row))
    }

    /// A picture of a copy, `[height, width, 3]`; None where there is nothing to draw.
    fn render<'py>(&self, py: Python<'py>, copy: usize) -> PyResult<Option<Bound<'py, PyArray3<u8>>>> {
        let frame = self.with(py, |copies| copies.render(copy))?;
        frame.map(|frame| picture(py, frame)).transpose()
    }

    /// A copy as text; None where it has none.
    fn render_ansi(&self, py: Python<'_>, copy: usize) -> PyResult<Option<String>> {
        self.with(py, |copies| copies.render_ansi(copy))
    }

    fn save_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.with(py, Copies::save_state)?;
        Ok(PyBytes::new(py, &state))
    }

    fn load_state(&self, py: Python<'_>, state: &[u8]) -> PyResult<()> {
        self.with(py, |copies| copies.load_state(state))
    }
}

/// Settings of an environment from the JSON that the Python half writes.
pub(crate) fn settings(text: &str) -> Result<EnvConfig> {
    serde_json::from_str(text)
        .map_err(|error| Fault::config(format!("the settings {text} are no JSON object: {error}")))
}

/// A space as the Python half reads it.
pub(crate) fn json(py: Python<'_>, space: &Space) -> PyResult<String> {
    serde_json::to_string(space).map_err(|error| raised(py, Fault::config(format!("{space}: {error}"))))
}

/// A picture as numpy has it.
pub(crate) fn picture(py: Python<'_>, frame: Frame) -> PyResult<Bound<'_, PyArray3<u8>>> {
    let shape = (frame.height, frame.width, 3);
    let pixels = Array3::from_shape_vec(shape, frame.rgb);
    let pixels =
        pixels.map_err(|error| raised(py, Fault::config(format!("a picture of {shape:?}: {error}"))))?;
    Ok(PyArray3::from_owned_array(py, pixels))
}
