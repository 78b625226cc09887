//! An environment with several agents, as a Python class.

use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyArray3};
use pavlov_envs::{AnyMultiAgentEnv, DType, MultiAgentOut, Space};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    fault::{Fault, Result, guarded, raised},
    memory::{Memory, Scalars},
    saved::{Reader, Writer},
    vector::{json, picture, settings},
};

/// What a reset or a step told about every agent: reward, `terminated`, `truncated`, whether it is in the episode, and
/// whether it acts next.
type Told = (Vec<f64>, Vec<bool>, Vec<bool>, Vec<bool>, Vec<bool>);

/// A native environment with several agents.
#[pyclass(frozen, module = "pavlov_rl._native")]
pub(crate) struct NativeAgents {
    inner: Mutex<Inner>,
    #[pyo3(get)]
    agents: Vec<String>,
    #[pyo3(get)]
    observation_spaces: Vec<String>,
    #[pyo3(get)]
    action_spaces: Vec<String>,
    #[pyo3(get)]
    render_fps: Option<f64>,
    act_dtype: DType,
    act_width: usize,
    /// Flags of each agent's action mask.
    masks: Vec<usize>,
}

struct Inner {
    id: String,
    env: Box<dyn AnyMultiAgentEnv>,
    /// All observations, one agent's row after the other.
    obs: Memory,
    rewards: Vec<f64>,
    flags: Flags,
    is_running: bool,
}

struct Flags {
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    alive: Vec<bool>,
    acting: Vec<bool>,
}

impl Inner {
    /// Runs `work` on the environment and what it writes.
    fn play(
        &mut self,
        work: impl FnOnce(&mut dyn AnyMultiAgentEnv, MultiAgentOut<'_, u8>) -> pavlov_envs::Result<()>,
    ) -> Result<Told> {
        let Flags { terminated, truncated, alive, acting } = &mut self.flags;
        let rewards = &mut self.rewards;
        let out = MultiAgentOut { obs: self.obs.bytes(), rewards, terminated, truncated, alive, acting };
        if let Err(error) = work(&mut *self.env, out) {
            let fault = Fault::from(error);
            self.is_running &= fault.is_refusal();
            return Err(fault);
        }
        self.is_running = self.flags.alive.contains(&true);
        Ok(self.told())
    }

    fn told(&self) -> Told {
        let Flags { terminated, truncated, alive, acting } = &self.flags;
        (self.rewards.clone(), terminated.clone(), truncated.clone(), alive.clone(), acting.clone())
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        if !self.is_running {
            return Err(Fault::state("there is no state outside of an episode; call `reset` first"));
        }
        let Some(state) = self.env.save_state() else {
            return Err(Fault::state(format!("{} saves no states", self.id)));
        };
        let mut writer = Writer::new(&self.label());
        writer.part(&state);
        writer.part(self.obs.bytes());
        let Flags { alive, acting, .. } = &self.flags;
        writer.part(&alive.iter().chain(acting).map(|&flag| u8::from(flag)).collect::<Vec<_>>());
        Ok(writer.finish())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<Told> {
        let mut reader = Reader::new(&self.label(), state)?;
        let agents = self.rewards.len();
        let own = reader.part()?;
        let obs = reader.part_of(self.obs.bytes().len())?;
        let flags: Vec<bool> = reader.part_of(2 * agents)?.iter().map(|&flag| flag != 0).collect();
        reader.finish()?;
        self.is_running = false;
        self.env.load_state(own)?;
        self.obs.bytes().copy_from_slice(obs);
        let (alive, acting) = flags.split_at(agents);
        self.flags.alive = alive.to_vec();
        self.flags.acting = acting.to_vec();
        self.flags.terminated.fill(false);
        self.flags.truncated.fill(false);
        self.rewards.fill(0.0);
        self.is_running = true;
        Ok(self.told())
    }

    fn label(&self) -> String {
        format!("{} with {} agents", self.id, self.rewards.len())
    }
}

impl NativeAgents {
    /// Works on the environment without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Inner) -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            guarded(|| work(&mut inner))
        });
        done.map_err(|fault| raised(py, fault))
    }
}

fn make(id: &str, config: &str) -> Result<Box<dyn AnyMultiAgentEnv>> {
    let config = settings(config)?;
    if pavlov_envs::python::is_agents_id(id) {
        let error = pavlov_envs::Error::UnknownEnv { id: id.to_owned(), nearest: None };
        return Err(error.into());
    }
    if pavlov_envs::ids().iter().any(|known| known == id) {
        return Err(Fault::config(format!(
            "{id} has one agent; make it with `gymnasium.make(\"pavlov/{id}\")`"
        )));
    }
    Ok(pavlov_envs::make_multi_agent(id, &config)?)
}

#[pymethods]
impl NativeAgents {
    #[new]
    #[pyo3(signature = (id, config))]
    fn new(py: Python<'_>, id: &str, config: &str) -> PyResult<Self> {
        let made = py.detach(|| guarded(|| make(id, config)));
        let env = made.map_err(|fault| raised(py, fault))?;
        let agents = env.agents();
        let observation_spaces: Vec<Space> =
            (0..agents.len()).map(|agent| env.observation_space(agent)).collect();
        let action_spaces: Vec<Space> = (0..agents.len()).map(|agent| env.action_space(agent)).collect();
        let obs_width: usize = observation_spaces.iter().map(Space::width).sum();
        let flags = || vec![false; agents.len()];
        Ok(Self {
            observation_spaces: observation_spaces
                .iter()
                .map(|space| json(py, space))
                .collect::<PyResult<_>>()?,
            action_spaces: action_spaces.iter().map(|space| json(py, space)).collect::<PyResult<_>>()?,
            render_fps: env.render_fps(),
            act_dtype: env.act_dtype(),
            act_width: action_spaces.iter().map(Space::width).sum(),
            masks: action_spaces.iter().map(Space::flat_width).collect(),
            inner: Mutex::new(Inner {
                id: id.to_owned(),
                obs: Memory::new(obs_width * env.obs_dtype().size()),
                rewards: vec![0.0; agents.len()],
                flags: Flags { terminated: flags(), truncated: flags(), alive: flags(), acting: flags() },
                is_running: false,
                env,
            }),
            agents,
        })
    }

    /// All observations, one agent's row after the other: the memory that every step writes.
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let inner = slf.get().inner.lock().unwrap_or_else(PoisonError::into_inner);
        let dtype = inner.env.obs_dtype();
        let width = (0..slf.get().agents.len()).map(|agent| inner.env.observation_space(agent).width()).sum();
        // SAFETY: this object owns the memory as long as it lives.
        unsafe { inner.obs.array_of(dtype, &[width], slf.clone().into_any()) }
    }

    #[pyo3(signature = (seed = None))]
    fn reset(&self, py: Python<'_>, seed: Option<u64>) -> PyResult<Told> {
        self.with(py, |inner| inner.play(|env, out| env.reset(seed, out)))
    }

    /// Whether an episode is running.
    #[getter]
    fn is_running(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |inner| Ok(inner.is_running))
    }

    /// Takes the actions of the agents that act; those of others are not read.
    fn step(&self, py: Python<'_>, actions: &Bound<'_, PyAny>) -> PyResult<Told> {
        let actions = Scalars::read(actions, self.act_dtype, self.act_width, "`actions`");
        let actions = actions.map_err(|fault| raised(py, fault))?;
        self.with(py, |inner| {
            if !inner.is_running {
                let problem = format!("{} is stepped outside of an episode; call `reset` first", inner.id);
                return Err(Fault::reset_needed(problem));
            }
            inner.play(|env, out| env.step(actions.bytes(), out))
        })
    }

    /// Which actions of an agent are legal; None where it has no mask.
    fn action_mask<'py>(&self, py: Python<'py>, agent: usize) -> PyResult<Option<Bound<'py, PyArray1<i8>>>> {
        let Some(&width) = self.masks.get(agent) else {
            return Err(raised(
                py,
                Fault::config(format!("there is no agent {agent}, only {}", self.agents.len())),
            ));
        };
        let mask = self.with(py, |inner| {
            let mut mask = vec![false; width];
            Ok(inner.env.action_mask(agent, &mut mask).then_some(mask))
        })?;
        Ok(mask.map(|mask| PyArray1::from_vec(py, mask.into_iter().map(i8::from).collect())))
    }

    /// A picture, `[height, width, 3]`; None where there is nothing to draw.
    fn render<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray3<u8>>>> {
        let frame = self.with(py, |inner| Ok(inner.env.render()?))?;
        frame.map(|frame| picture(py, frame)).transpose()
    }

    fn save_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.with(py, Inner::save_state)?;
        Ok(PyBytes::new(py, &state))
    }

    fn load_state(&self, py: Python<'_>, state: &[u8]) -> PyResult<Told> {
        self.with(py, |inner| inner.load_state(state))
    }
}
