//! Acting by a policy: rows of observations in, rows of actions out.

use numpy::{PyArray1, PyArrayMethods};
use pavlov::trainer::{Action, Session};
use pavlov_envs::DType;
use pyo3::prelude::*;

use crate::fault::{Fault, Result, guarded, raised};
use crate::memory::Scalars;

/// What a policy is asked for.
pub(crate) struct Asked {
    obs: Scalars,
    /// Whether to explore, or to take the best known action.
    pub(crate) explore: bool,
    /// For each copy, whether an episode begins.
    pub(crate) starts: Option<Vec<bool>>,
    /// Flags of the legal actions, copy by copy.
    pub(crate) masks: Option<Vec<bool>>,
}

impl Asked {
    /// Reads `copies` rows of `width` observations.
    pub(crate) fn new(
        obs: &Bound<'_, PyAny>,
        (dtype, width): (DType, usize),
        copies: usize,
        explore: bool,
        starts: Option<Vec<bool>>,
        masks: Option<Vec<bool>>,
    ) -> Result<Self> {
        let obs = Scalars::read(obs, dtype, copies * width, "`observation`")?;
        if let Some(starts) = &starts
            && starts.len() != copies
        {
            let message = format!("`episode_start` has {} entries for {copies} copies", starts.len());
            return Err(Fault::config(message));
        }
        Ok(Self { obs, explore, starts, masks })
    }
}

/// Chooses one action for each copy's row of observations.
pub(crate) fn act(session: &mut Session, asked: &Asked) -> Result<Vec<Action>> {
    for (copy, _) in asked.starts.iter().flatten().enumerate().filter(|(_, starts)| **starts) {
        session.reset(copy)?;
    }
    if let Some(legal) = session.mask_mut() {
        match &asked.masks {
            None => legal.fill(true),
            Some(masks) if masks.len() == legal.len() => legal.copy_from_slice(masks),
            Some(masks) => {
                let message =
                    format!("`action_masks` has {} flags, but it must have {}", masks.len(), legal.len());
                return Err(Fault::config(message));
            }
        }
    } else if asked.masks.is_some() {
        return Err(Fault::config(
            "`action_masks` is given, but the policy was trained without masks; train with MaskablePPO",
        ));
    }
    let obs = asked.obs.bytes();
    Ok(match session.observation_space().dtype() {
        DType::U8 => session.compute_actions(obs, asked.explore),
        DType::I64 => session.compute_actions::<i64>(bytemuck::cast_slice(obs), asked.explore),
        DType::F32 => session.compute_actions::<f32>(bytemuck::cast_slice(obs), asked.explore),
        DType::F64 => session.compute_actions::<f64>(bytemuck::cast_slice(obs), asked.explore),
    }?)
}

/// Actions as an array, `[copies, width]`.
pub(crate) fn actions_array(py: Python<'_>, actions: Vec<Action>) -> PyResult<Bound<'_, PyAny>> {
    let copies = actions.len();
    let mut integers = Vec::new();
    let mut reals = Vec::new();
    for action in actions {
        match action {
            Action::Int(choices) => integers.extend(choices),
            Action::Float(components) => reals.extend(components),
        }
    }
    if integers.is_empty() {
        let width = reals.len() / copies.max(1);
        return Ok(PyArray1::from_vec(py, reals).reshape([copies, width])?.into_any());
    }
    let width = integers.len() / copies.max(1);
    Ok(PyArray1::from_vec(py, integers).reshape([copies, width])?.into_any())
}

/// A saved policy, which acts without an environment.
#[pyclass(frozen, module = "pavlov_rl._native")]
pub(crate) struct NativePolicy {
    session: std::sync::Mutex<Session>,
    copies: usize,
    /// The observation space as JSON.
    #[pyo3(get)]
    observation_space: String,
    /// The action space as JSON.
    #[pyo3(get)]
    action_space: String,
    /// Whether the policy remembers from one call to the next.
    #[pyo3(get)]
    is_recurrent: bool,
}

#[pymethods]
impl NativePolicy {
    /// Loads the policy of a packed model, of a checkpoint, or of the newest checkpoint of a run directory.
    #[new]
    fn new(py: Python<'_>, path: std::path::PathBuf, copies: usize) -> PyResult<Self> {
        let loaded = py.detach(|| guarded(|| Ok(pavlov::load_policy(path, None, copies)?)));
        let mut session = loaded.map_err(|fault| raised(py, fault))?;
        let observation_space = crate::vector::json(py, session.observation_space())?;
        let action_space = crate::vector::json(py, session.action_space())?;
        let is_recurrent = session.is_recurrent().map_err(|error| raised(py, error))?;
        Ok(Self { session: session.into(), copies, observation_space, action_space, is_recurrent })
    }

    /// Chooses an action for each row of `obs`.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        explore: bool,
        starts: Option<Vec<bool>>,
        masks: Option<Vec<bool>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lock = || self.session.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let space = lock().observation_space().clone();
        let asked = Asked::new(obs, (space.dtype(), space.width()), self.copies, explore, starts, masks);
        let asked = asked.map_err(|fault| raised(py, fault))?;
        let actions =
            py.detach(|| guarded(|| act(&mut lock(), &asked))).map_err(|fault| raised(py, fault))?;
        actions_array(py, actions)
    }
}
