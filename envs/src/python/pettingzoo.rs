//! Environments of several agents in Python: one copy in one worker, whose rows are the agents.

use std::{marker::PhantomData, sync::Arc};

use serde_json::json;

use super::{
    config::{PyConfig, Vectorization},
    episode::{CopyPosition, Episode},
    slabs::{Memory, Offsets, RowLayout},
    talk::{Failure, draw, first_message, info_value, start_request},
    turns::Turns,
    worker::{Answer, Worker},
};
mod agent;
mod replay;

use agent::{Agent, agents, common_dtype};

use crate::{
    AnyMultiAgentEnv, Element, EnvConfig, Error, Frame, MultiAgentEnv, MultiAgentOut, ResetOptions, Result,
    Space, contract::element::with_scalar, contract::state, contract::vector::invalid_action,
};

/// Prefix of ids of PettingZoo environments: `pz:mpe2.simple_spread_v3`.
const PETTINGZOO: &str = "pz:";

/// Prefix of ids of Gymnasium environments of several agents: `ma:rware:rware-tiny-2ag-v2`.
const TUPLES: &str = "ma:";

/// Prefixes of ids of environments of several agents in Python.
pub(crate) const PREFIXES: [&str; 2] = [PETTINGZOO, TUPLES];

/// An environment of several agents in a Python process: one of PettingZoo, parallel or turn-based, or one of Gymnasium whose
/// spaces are Tuples.
///
/// [`make_multi_agent`](crate::make_multi_agent) makes one for every id `pz:MODULE` by calling
/// `MODULE.parallel_env(**kwargs)` in Python, for instance `pz:mpe2.simple_spread_v3`, or else `MODULE.env(**kwargs)`: a
/// turn-based game, such as `pz:pettingzoo.classic.connect_four_v3`, in which one agent acts at a time. `ma:ID` and
/// `ma:MODULE:ID` are made by `gymnasium.make(ID, **kwargs)`, for instance `ma:rware:rware-tiny-2ag-v2`. Use this type directly
/// if you need a [`MultiAgentEnv`] and know the scalar types. The settings are those of [`PyConfig`], without `vectorization`
/// and with one worker.
///
/// The agents are PettingZoo's `possible_agents`. With `ma:` they are `agent_0`, `agent_1` and so on: each has a part of the
/// Tuple of observations, of the Tuple of actions and of the list of rewards. A reward or a flag that is one value is every
/// agent's.
///
/// The agents' spaces may differ, but not the scalar types of their rows. If observations are a Dict with the key
/// `action_mask`, this is the mask of legal actions, and it is a part of the row too; otherwise `info["action_mask"]` is. Every
/// action is legal for an agent without a mask.
///
/// Saving and loading replays the episode from its seed and actions. The first fault in Python ends the process, and every
/// later call returns the same error.
///
/// ```no_run
/// use pavlov_envs::{EnvConfig, MultiAgentEnv, MultiAgentRows, python::PyMultiAgentEnv};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let mut env = PyMultiAgentEnv::<f32, i64>::new("pz:mpe2.simple_spread_v3", &EnvConfig::new())?;
/// let mut rows = MultiAgentRows::new(&env);
/// env.reset(Some(42), rows.out())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PyMultiAgentEnv<O, A> {
    host: Host,
    scalars: PhantomData<fn() -> (O, A)>,
}

/// An environment in its worker, without scalar types: rows are bytes.
#[derive(Debug)]
struct Host {
    /// Id with its prefix, such as `pz:mpe2.simple_spread_v3`.
    name: String,
    agents: Vec<Agent>,
    render_fps: Option<f64>,
    worker: Worker,
    memory: Memory,
    /// Layout of the widest agent's rows; narrower rows are padded.
    rows: RowLayout,
    offsets: Offsets,
    info_keys: Vec<String>,
    /// Whether each agent is in the episode.
    alive: Vec<bool>,
    /// Whether each agent acts in the next step.
    acting: Vec<bool>,
    episode: Episode,
    /// Options of later resets; `None` if there are none.
    options: Option<Arc<ResetOptions>>,
    turns: Turns,
    failure: Option<Failure>,
}

impl<O: Element, A: Element> PyMultiAgentEnv<O, A> {
    /// Starts Python and makes the environment `id`; one without a prefix is PettingZoo's (`pz:`).
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a setting does not fit, [`Error::Python`] if the interpreter, a package or the
    /// environment fails, and [`Error::Shape`] if the environment's scalar types are not `O` and `A`.
    pub fn new(id: &str, env_config: &EnvConfig) -> Result<Self> {
        let host = Host::start(id, env_config)?;
        for (what, asked, found) in [
            ("the scalar type of observations", O::DTYPE, host.rows.obs_dtype),
            ("the scalar type of actions", A::DTYPE, host.rows.act_dtype),
        ] {
            if asked != found {
                return Err(Error::shape(what, asked, format_args!("{found}, as in {}", host.name)));
            }
        }
        Ok(Self { host, scalars: PhantomData })
    }

    /// Process id of the worker.
    pub fn worker_pid(&self) -> u32 {
        self.host.worker.pid()
    }
}

impl<O: Element, A: Element> MultiAgentEnv for PyMultiAgentEnv<O, A> {
    type Obs = O;
    type Act = A;

    fn agents(&self) -> Vec<String> {
        self.host.agents.iter().map(|agent| agent.name.clone()).collect()
    }

    fn observation_space(&self, agent: usize) -> Space {
        self.host.agents[agent].observation_space.clone()
    }

    fn action_space(&self, agent: usize) -> Space {
        self.host.agents[agent].action_space.clone()
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, O>) -> Result<()> {
        out.check(self.host.agents.len(), self.host.obs_width())?;
        self.host.reset(seed)?;
        self.host.read(out);
        Ok(())
    }

    fn step(&mut self, actions: &[A], out: MultiAgentOut<'_, O>) -> Result<()> {
        let host = &mut self.host;
        out.check(host.agents.len(), host.obs_width())?;
        if actions.len() != host.act_width() {
            let found = actions.len();
            let expected = host.act_width();
            let expected = format_args!("{expected} long for {} agents", host.agents.len());
            return Err(Error::shape("`actions`", format_args!("{found} long"), expected));
        }
        host.healthy()?;
        if !host.alive.contains(&true) {
            return Err(Error::unsupported(&host.name, "running episode", "call `reset`"));
        }
        let mut rest = actions;
        for (agent, acts) in host.agents.iter().zip(&host.acting) {
            let (action, after) = rest.split_at(agent.action_space.width());
            rest = after;
            if *acts && let Some(row) = invalid_action(&agent.action_space, action) {
                return Err(Error::invalid_action(&host.name, row, &agent.action_space));
            }
        }
        host.step(bytemuck::cast_slice(actions))?;
        host.read(out);
        Ok(())
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        self.host.action_mask(agent, mask)
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.host.set_reset_options(options)
    }

    fn info(&self, agent: usize, key: &str) -> Option<f64> {
        self.host.info(agent, key)
    }

    fn info_value(&mut self, agent: usize, key: &str) -> Result<Option<serde_json::Value>> {
        self.host.healthy()?;
        let told = info_value(&mut self.host.worker, agent, key);
        self.host.check(told)
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        self.host.healthy()?;
        let drawn = draw(&mut self.host.worker, 0);
        self.host.check(drawn)?.picture(&self.host.name)
    }

    fn render_fps(&self) -> Option<f64> {
        self.host.render_fps
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let episode = self.host.episode.save().ok()?;
        Some(state::save(&self.host.tag(), &(episode, self.host.shown())))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.host.replay(state)
    }
}

impl Host {
    fn start(id: &str, env_config: &EnvConfig) -> Result<Self> {
        let (hosted_as, id) = match id.strip_prefix(TUPLES) {
            Some(id) => ("tuple_agents", id),
            None => ("parallel_env", id.strip_prefix(PETTINGZOO).unwrap_or(id)),
        };
        let name = format!("{}{id}", if hosted_as == "tuple_agents" { TUPLES } else { PETTINGZOO });
        let config = PyConfig::decode(&name, env_config, 1)?;
        if config.vectorization != Vectorization::Loop {
            let message =
                "`vectorization` is given, but an environment of several agents has one copy; leave it out";
            return Err(Error::Config { env: name, message: message.into() });
        }
        if hosted_as == "parallel_env" && !config.wrappers.is_empty() {
            let message = "`wrappers` is given, but wrappers of Gymnasium do not stand around PettingZoo's environments";
            return Err(Error::Config { env: name, message: message.into() });
        }
        let failed = |message| Error::Python { env: name.clone(), message };
        let mut first_message = first_message(id, &config);
        first_message.insert("vectorization".into(), json!(hosted_as));
        let mut worker =
            Worker::start(0, &config.interpreter(), first_message, config.start_timeout()).map_err(failed)?;
        worker.request(&json!({"do": "describe_agents"})).map_err(failed)?;
        let about = worker.line("describe_agents").map_err(failed)?;
        let agents = agents(&name, &about)?;

        let widest = |width: fn(&Agent) -> usize| agents.iter().map(width).max().unwrap_or(0);
        let has_masks = about["has_masks"] == true;
        let rows = RowLayout {
            num_envs: agents.len(),
            num_workers: 1,
            obs_width: widest(|agent| agent.observation_space.width()),
            obs_dtype: common_dtype(&name, "observations", &agents, |agent| &agent.observation_space)?,
            act_width: widest(|agent| agent.action_space.width()),
            act_dtype: common_dtype(&name, "actions", &agents, |agent| &agent.action_space)?,
            num_masked: if has_masks { widest(Agent::num_actions) } else { 0 },
            num_infos: config.info_keys.len(),
        };
        let (offsets, size) = Offsets::new(&rows);
        let memory = Memory::new(size).map_err(|error| failed(format!("{size} bytes of memory: {error}")))?;
        worker.request(&start_request(&memory, &offsets, &rows, 0, 0..agents.len())).map_err(failed)?;
        let made = worker.line("start").map_err(failed)?;
        if made["observation"] != about["observation"] || made["action"] != about["action"] {
            return Err(failed("its second copy has other spaces than its first".into()));
        }
        worker.set_timeout(config.timeout());
        let act_bytes: usize = agents.iter().map(|agent| agent.action_space.width()).sum();
        Ok(Self {
            alive: vec![false; agents.len()],
            acting: vec![false; agents.len()],
            episode: Episode::new(None, act_bytes * rows.act_dtype.size()),
            options: None,
            turns: Turns::new(offsets.callers),
            info_keys: config.info_keys,
            render_fps: about["render_fps"].as_f64(),
            failure: None,
            name,
            agents,
            worker,
            memory,
            rows,
            offsets,
        })
    }

    /// Number of scalars in the observations of all agents together.
    fn obs_width(&self) -> usize {
        self.agents.iter().map(|agent| agent.observation_space.width()).sum()
    }

    fn act_width(&self) -> usize {
        self.agents.iter().map(|agent| agent.action_space.width()).sum()
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<()> {
        self.healthy()?;
        self.episode.begin(seed, &self.options);
        if let Some(seed) = seed {
            self.memory.write(self.offsets.seeds, bytemuck::bytes_of(&seed));
        }
        self.run_command(if seed.is_some() { b"r" } else { b"R" }, "reset")
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.healthy()?;
        let told = self.worker.request(&json!({"do": "reset_options", "options": options}));
        let done = told.and_then(|()| self.worker.read_done("set the options"));
        self.check(done)?;
        self.options = (!options.is_empty()).then(|| Arc::new(options.clone()));
        Ok(())
    }

    /// Steps the environment; `actions` holds the actions of all agents, one row after the other.
    fn step(&mut self, actions: &[u8]) -> Result<()> {
        self.episode.act(actions);
        let mut rest = actions;
        for (i, agent) in self.agents.iter().enumerate() {
            let (action, after) = rest.split_at(agent.action_space.width() * self.rows.act_dtype.size());
            rest = after;
            self.memory.write(self.offsets.actions + i * self.rows.act_bytes(), action);
        }
        let step = self.turns.begin(&self.worker, &self.memory);
        self.run_command(b"S", "step")?;
        self.turns.end(step, &self.memory);
        Ok(())
    }

    fn run_command(&mut self, command: &[u8], doing: &str) -> Result<()> {
        let answer = self.worker.write(command).and_then(|()| self.worker.read_done(doing));
        self.check(answer)?;
        self.memory.read_flags(self.offsets.alive, &mut self.alive);
        self.memory.read_flags(self.offsets.acting, &mut self.acting);
        Ok(())
    }

    fn read<O: Element>(&self, out: MultiAgentOut<'_, O>) {
        let mut rest = out.obs;
        for (i, agent) in self.agents.iter().enumerate() {
            let (row, after) = rest.split_at_mut(agent.observation_space.width());
            rest = after;
            self.memory.read(self.offsets.obs + i * self.rows.obs_bytes(), bytemuck::cast_slice_mut(row));
        }
        self.memory.read(self.offsets.rewards, bytemuck::cast_slice_mut(out.rewards));
        self.memory.read_flags(self.offsets.terminated, out.terminated);
        self.memory.read_flags(self.offsets.truncated, out.truncated);
        out.alive.copy_from_slice(&self.alive);
        out.acting.copy_from_slice(&self.acting);
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        let num_actions = self.agents[agent].num_actions();
        if self.rows.num_masked == 0 || num_actions == 0 || mask.len() != num_actions {
            return false;
        }
        self.memory.read_flags(self.offsets.masks + agent * self.rows.num_masked, mask);
        true
    }

    fn info(&self, agent: usize, key: &str) -> Option<f64> {
        let column = self.info_keys.iter().position(|known| known == key)?;
        let mut number = f64::NAN;
        let at = self.offsets.infos + (column * self.agents.len() + agent) * size_of::<f64>();
        self.memory.read(at, bytemuck::bytes_of_mut(&mut number));
        Some(number).filter(|number| !number.is_nan())
    }

    fn healthy(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error(&self.name)))
    }

    /// Turns a fault of the worker into the error that this call and every later one returns.
    fn check<T>(&mut self, answer: Answer<T>) -> Result<T> {
        answer.map_err(|message| {
            self.worker.kill();
            let position = CopyPosition { row: 0, seed: self.episode.seed(), step: self.episode.step() };
            self.failure.insert(Failure { position: Some(position), message }).error(&self.name)
        })
    }
}

/// Returns true if the id stands for an environment of several agents in a Python process: it begins with `pz:` or `ma:`.
pub fn is_agents_id(id: &str) -> bool {
    PREFIXES.iter().any(|prefix| id.starts_with(prefix))
}

/// Makes an environment of several agents in Python, whatever its scalar types; `id` is with its prefix.
pub(crate) fn make_multi_agent(id: &str, env_config: &EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> {
    let host = Host::start(id, env_config)?;
    Ok(with_scalar!(host.rows.obs_dtype, O => with_scalar!(host.rows.act_dtype, A => {
        Box::new(PyMultiAgentEnv::<O, A> { host, scalars: PhantomData })
    })))
}
