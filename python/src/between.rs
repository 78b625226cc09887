//! What a run and its environments share with the interpreter: what was raised, and the steps that callbacks are told of.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArray1, PyArrayMethods};
use pavlov_envs::{DType, Error};
use pyo3::{prelude::*, types::PyTuple};

/// Shared by a run, the copies of its environment and the Python object that trains it.
#[derive(Debug, Default)]
pub(crate) struct Between {
    /// The exception that an environment in Python raised last.
    raised: Mutex<Option<PyErr>>,
    /// Whether steps are kept. It is read at every step, so that workers take no lock unless a callback wants their steps.
    is_on: AtomicBool,
    /// Whether a state that is saved now leaves the episodes out, so that whoever loads it starts new ones.
    without_episodes: AtomicBool,
    steps: Mutex<Steps>,
}

/// Steps of the copies since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Number of the vector whose steps are kept; `None` keeps those of the first that is stepped.
    vector: Option<u64>,
    actions: Vec<u8>,
    obs: Vec<u8>,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// Rows, counted through all steps, in which an episode ended, and the last observations there.
    ended: Vec<i64>,
    final_obs: Vec<u8>,
}

/// What a step of all copies wrote.
pub(crate) struct Stepped<'a> {
    pub(crate) actions: &'a [u8],
    pub(crate) obs: &'a [u8],
    pub(crate) final_obs: &'a [u8],
    pub(crate) rewards: &'a [f32],
    pub(crate) terminated: &'a [bool],
    pub(crate) truncated: &'a [bool],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Between {
    /// Keeps an exception until the call that led to it returns, and gives the error that unwinds the run.
    pub(crate) fn keep(&self, raised: PyErr) -> Error {
        let text = raised.to_string();
        *lock(&self.raised) = Some(raised);
        Error::other(text)
    }

    pub(crate) fn take_raised(&self) -> Option<PyErr> {
        lock(&self.raised).take()
    }

    /// Keeps the steps of the copies from now on, or no longer.
    pub(crate) fn record(&self, is_on: bool) {
        *lock(&self.steps) = Steps::default();
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Leaves the episodes out of the states that are saved from now on, or no longer.
    pub(crate) fn leave_episodes_out(&self, out: bool) {
        self.without_episodes.store(out, Ordering::Relaxed);
    }

    pub(crate) fn is_without_episodes(&self) -> bool {
        self.without_episodes.load(Ordering::Relaxed)
    }

    /// Adds a step of the vector with that number, if steps are kept and it is the one that is sampled.
    pub(crate) fn add(&self, vector: u64, step: &Stepped<'_>) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut steps = lock(&self.steps);
        if *steps.vector.get_or_insert(vector) != vector {
            return;
        }
        let first = steps.rewards.len();
        let width = step.obs.len() / step.rewards.len().max(1);
        for (copy, (terminated, truncated)) in step.terminated.iter().zip(step.truncated).enumerate() {
            if *terminated || *truncated {
                steps.ended.push((first + copy) as i64);
                steps.final_obs.extend_from_slice(&step.final_obs[copy * width..][..width]);
            }
        }
        steps.actions.extend_from_slice(step.actions);
        steps.obs.extend_from_slice(step.obs);
        steps.rewards.extend_from_slice(step.rewards);
        steps.terminated.extend_from_slice(step.terminated);
        steps.truncated.extend_from_slice(step.truncated);
    }

    /// Takes the steps: `actions, obs, rewards, terminated, truncated, ended, final_obs`, all flat.
    pub(crate) fn take_steps<'py>(
        &self,
        py: Python<'py>,
        obs: DType,
        actions: DType,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let taken = std::mem::take(&mut *lock(&self.steps));
        let all = [
            array(py, actions, &taken.actions)?,
            array(py, obs, &taken.obs)?,
            PyArray1::from_vec(py, taken.rewards).into_any(),
            PyArray1::from_vec(py, taken.terminated).into_any(),
            PyArray1::from_vec(py, taken.truncated).into_any(),
            PyArray1::from_vec(py, taken.ended).into_any(),
            array(py, obs, &taken.final_obs)?,
        ];
        PyTuple::new(py, all)
    }
}

/// A flat array of the scalars that these bytes are.
pub(crate) fn array<'py>(py: Python<'py>, dtype: DType, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    fn of<'py, T: numpy::Element + bytemuck::Pod>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
        // Bytes of a `Vec<u8>` need not be aligned.
        let scalars = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>);
        PyArray1::from_iter(py, scalars).into_any()
    }
    Ok(match dtype {
        DType::U8 => of::<u8>(py, bytes),
        DType::I64 => of::<i64>(py, bytes),
        DType::F32 => of::<f32>(py, bytes),
        DType::F64 => of::<f64>(py, bytes),
    })
}

/// Copies an array's scalars to where a run reads them; the message that refuses another array names it `what`.
pub(crate) fn copy_to(array: &Bound<'_, PyAny>, dtype: DType, to: &mut [u8], what: &str) -> PyResult<()> {
    fn of<T: numpy::Element + bytemuck::Pod>(array: &Bound<'_, PyAny>, to: &mut [u8]) -> Option<()> {
        let array = array.cast::<numpy::PyArrayDyn<T>>().ok()?.readonly();
        let bytes = bytemuck::cast_slice::<T, u8>(array.as_slice().ok()?);
        (bytes.len() == to.len()).then(|| to.copy_from_slice(bytes))
    }
    let done = match dtype {
        DType::U8 => of::<u8>(array, to),
        DType::I64 => of::<i64>(array, to),
        DType::F32 => of::<f32>(array, to),
        DType::F64 => of::<f64>(array, to),
    };
    let len = to.len() / dtype.size();
    done.ok_or_else(|| {
        let message = format!("{what} must be a contiguous numpy array of {len} {dtype}");
        pyo3::exceptions::PyTypeError::new_err(message)
    })
}
