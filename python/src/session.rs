//! Acting by a policy: rows of observations in, rows of actions out. Nothing is remembered between calls.

use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pavlov::trainer::policy::ActionRows;
use pavlov::trainer::rng::Stream;
use pavlov::trainer::{Loaded, Observations};
use pavlov_envs::{DType, Element};
use pyo3::prelude::*;

use crate::fault::{Fault, Result, guarded, raised};
use crate::memory::Scalars;

/// A policy that threads share, and the random stream of its calls.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) policy: Loaded,
    rng: Mutex<Stream>,
}

/// Actions row after row, as the environment takes them.
enum Actions {
    Int(Vec<i64>),
    Float(Vec<f32>),
}

/// What a call asks for besides the observations: whether to explore, the flags of the legal actions, row by row, and the
/// memory of a recurrent policy, row by row.
pub(crate) type Asked<'py> = (bool, Option<Vec<bool>>, Option<PyReadonlyArray1<'py, f32>>);

impl Actor {
    /// Draws actions from a stream that follows from `seed` and `timestep`.
    pub(crate) fn new(policy: Loaded, seed: u64, timestep: u64) -> Self {
        Self { policy, rng: Stream::new(seed, "predict", timestep).into() }
    }

    /// Chooses an action for each of the rows of `obs`: the actions, `[rows, width]`, and the memory after them,
    /// `[rows, memory_width]`.
    pub(crate) fn predict<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        rows: usize,
        (explore, masks, memory): Asked<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let dtype = self.policy.observation_dtype();
        let asked = (|| {
            let obs = Scalars::read(obs, dtype, rows * self.policy.observation_width(), "`observation`")?;
            self.check_masks(rows, masks.as_deref())?;
            let width = rows * self.policy.memory_width();
            let memory = match &memory {
                None => vec![0.0; width],
                Some(given) => given.as_slice().map(<[f32]>::to_vec).unwrap_or_default(),
            };
            if memory.len() != width {
                let len = memory.len();
                return Err(Fault::config(format!("`state` has {len} numbers, but it must have {width}")));
            }
            Ok((obs, memory))
        })();
        let (obs, mut memory) = asked.map_err(|fault| raised(py, fault))?;
        let mut streams: Vec<Stream> = if explore {
            let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
            (0..rows).map(|_| Stream::new(rng.below(u64::MAX), "action", 0)).collect()
        } else {
            Vec::new()
        };
        let streams = explore.then_some(streams.as_mut_slice());
        let mask = masks.as_deref();
        let actions = py.detach(|| {
            guarded(|| match dtype {
                DType::U8 => self.act::<u8>(obs.bytes(), mask, &mut memory, streams),
                DType::I64 => self.act::<i64>(obs.bytes(), mask, &mut memory, streams),
                DType::F32 => self.act::<f32>(obs.bytes(), mask, &mut memory, streams),
                DType::F64 => self.act::<f64>(obs.bytes(), mask, &mut memory, streams),
            })
        });
        let shape = [rows, self.policy.action_width()];
        let actions = match actions.map_err(|fault| raised(py, fault))? {
            Actions::Int(actions) => PyArray1::from_vec(py, actions).reshape(shape)?.into_any(),
            Actions::Float(actions) => PyArray1::from_vec(py, actions).reshape(shape)?.into_any(),
        };
        let memory = PyArray1::from_vec(py, memory).reshape([rows, self.policy.memory_width()])?;
        Ok((actions, memory.into_any()))
    }

    fn check_masks(&self, rows: usize, masks: Option<&[bool]>) -> Result<()> {
        match (masks, self.policy.mask_width()) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(Fault::config(
                "`action_masks` is given, but the policy was trained without masks; train with MaskablePPO",
            )),
            (Some(masks), Some(width)) if masks.len() == rows * width => Ok(()),
            (Some(masks), Some(width)) => {
                let message =
                    format!("`action_masks` has {} flags, but it must have {}", masks.len(), rows * width);
                Err(Fault::config(message))
            }
        }
    }

    fn act<O: Element>(
        &self,
        obs: &[u8],
        mask: Option<&[bool]>,
        memory: &mut [f32],
        streams: Option<&mut [Stream]>,
    ) -> Result<Actions> {
        let obs: &[O] = bytemuck::cast_slice(obs);
        let mut rows = Observations::new(obs).with_memory(memory);
        if let Some(mask) = mask {
            rows = rows.with_mask(mask);
        }
        if let Some(streams) = streams {
            rows = rows.drawn_from(streams);
        }
        let numbers = obs.len() / self.policy.observation_width() * self.policy.action_width();
        if self.policy.is_discrete() {
            let mut actions = vec![0; numbers];
            self.policy.act(rows, ActionRows::Int(&mut actions))?;
            return Ok(Actions::Int(actions));
        }
        let mut actions = vec![0.0; numbers];
        self.policy.act(rows, ActionRows::Float(&mut actions))?;
        Ok(Actions::Float(actions))
    }
}

/// A saved policy, which acts without an environment.
#[pyclass(frozen, module = "pavlov_rl._native")]
pub(crate) struct NativePolicy {
    actor: Actor,
    /// The algorithm that trained it; `None` if a packed model does not say.
    #[pyo3(get)]
    algorithm: Option<String>,
    /// The observation space as JSON.
    #[pyo3(get)]
    observation_space: String,
    /// The action space as JSON.
    #[pyo3(get)]
    action_space: String,
}

#[pymethods]
impl NativePolicy {
    /// Loads the policy of a packed model, of a checkpoint, or of the newest checkpoint of a run directory.
    #[new]
    fn new(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Self> {
        let loaded =
            py.detach(|| guarded(|| Ok((pavlov::load_shared(&path, None)?, pavlov::algorithm_of(&path)?))));
        let (policy, algorithm) = loaded.map_err(|fault| raised(py, fault))?;
        Ok(Self {
            algorithm,
            observation_space: crate::vector::json(py, policy.observation_space())?,
            action_space: crate::vector::json(py, policy.action_space())?,
            actor: Actor::new(policy, 0, 0),
        })
    }

    /// The memory of a recurrent policy: its numbers per row, and the equal parts that they are of, for instance the output
    /// and the cell of a long short-term memory. `(0, 1)` without memory.
    #[getter]
    fn memory(&self) -> (usize, usize) {
        (self.actor.policy.memory_width(), self.actor.policy.memory_parts())
    }

    /// Chooses an action for each of the rows of `obs`; returns the actions and the memory after them.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        rows: usize,
        explore: bool,
        masks: Option<Vec<bool>>,
        memory: Option<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        self.actor.predict(py, obs, rows, (explore, masks, memory))
    }
}
