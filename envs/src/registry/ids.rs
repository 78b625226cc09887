//! The registry of environments by id, one for the whole process.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, RwLock, RwLockReadGuard},
};

use crate::{
    AnyMultiAgentEnv, AnyVectorEnv, EnvConfig, EnvCopies, EnvCreator, EnvSpec, Error, IntoEnvCreator, Result,
    native, python as py,
    registry::common_settings::{split_options, stepped_agents},
    registry::nearest::nearest,
    running::agents::TimeLimit,
};

type MakeAgents = dyn Fn(&EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> + Send + Sync;

#[derive(Clone)]
enum Recipe {
    OneAgent(EnvCreator),
    /// Closure that makes one copy of an environment with several agents.
    MultiAgent(Arc<MakeAgents>),
}

struct Entry {
    spec: EnvSpec,
    recipe: Recipe,
}

/// Entries of all registered environments by id, with one agent or several.
static REGISTRY: LazyLock<RwLock<BTreeMap<String, Entry>>> = LazyLock::new(|| {
    let one = native::entries().into_iter().map(|(spec, creator)| (spec, Recipe::OneAgent(creator)));
    let agents = native::multi_agent_entries().into_iter();
    let agents = agents.map(|(spec, make)| (spec, Recipe::MultiAgent(Arc::new(make))));
    RwLock::new(one.chain(agents).map(|(spec, recipe)| (spec.id.clone(), Entry { spec, recipe })).collect())
});

fn registry() -> RwLockReadGuard<'static, BTreeMap<String, Entry>> {
    REGISTRY.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Registers an environment under `spec.id` for the whole process. Its episodes are truncated after
/// `spec.max_episode_steps`.
///
/// ```
/// use pavlov_envs::{EnvConfig, EnvSpec, make_vec, register, native::{CartPole, CartPoleConfig}};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let spec = EnvSpec {
///     id: "ShortCartPole-v0".into(),
///     summary: "CartPole for a second".into(),
///     max_episode_steps: Some(50),
///     reward_threshold: None,
/// };
/// register(spec, || CartPole::new(CartPoleConfig::default()))?;
/// let env = make_vec("ShortCartPole-v0", &EnvConfig::new(), 8)?;
/// assert_eq!(env.num_envs(), 8);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns [`Error::AlreadyRegistered`] if the id is taken, by an environment of several agents too, and
/// [`Error::Shape`] if it begins with `py:`, `pz:` or `ma:` or if `max_episode_steps` is 0.
pub fn register(spec: EnvSpec, creator: impl IntoEnvCreator) -> Result<()> {
    let mut creator = creator.into_env_creator();
    if let Some(steps) = limit(&spec)? {
        creator = creator.limited(steps);
    }
    add(spec, Recipe::OneAgent(creator))
}

/// Registers an environment with several agents under `spec.id` for the whole process. Its agents are truncated after
/// `spec.max_episode_steps`. An [`EnvCreator`] calls `make` with the `env_config` without `num_threads`, the number of threads
/// that share the copies.
///
/// ```
/// use pavlov_envs::{EnvConfig, EnvSpec, make_multi_agent, register_multi_agent, native::BoardGame};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let spec = EnvSpec {
///     id: "short_tictactoe_v0".into(),
///     summary: "the first four moves of tictactoe".into(),
///     max_episode_steps: Some(4),
///     reward_threshold: None,
/// };
/// register_multi_agent(spec, |_| Ok(Box::new(BoardGame::tictactoe())))?;
/// assert_eq!(make_multi_agent("short_tictactoe_v0", &EnvConfig::new())?.agents().len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns [`Error::AlreadyRegistered`] if the id is taken, by an environment of one agent too, and [`Error::Shape`] if
/// it begins with `py:`, `pz:` or `ma:` or if `max_episode_steps` is 0.
pub fn register_multi_agent(
    spec: EnvSpec,
    make: impl Fn(&EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> + Send + Sync + 'static,
) -> Result<()> {
    let recipe = match limit(&spec)? {
        None => Recipe::MultiAgent(Arc::new(make)),
        Some(steps) => {
            Recipe::MultiAgent(Arc::new(move |config| Ok(Box::new(TimeLimit::new(make(config)?, steps)))))
        }
    };
    add(spec, recipe)
}

/// Returns the limit on steps of a new entry; an error if it is 0.
fn limit(spec: &EnvSpec) -> Result<Option<usize>> {
    match spec.max_episode_steps {
        Some(0) => Err(Error::shape("`max_episode_steps`", 0, "at least 1, or None for no limit")),
        limit => Ok(limit),
    }
}

fn add(spec: EnvSpec, recipe: Recipe) -> Result<()> {
    for prefix in [py::PREFIX].into_iter().chain(py::AGENTS_PREFIXES) {
        if spec.id.starts_with(prefix) {
            let expected = format_args!("one without `{prefix}`, which stands for environments in Python");
            return Err(Error::shape("the id", format_args!("{:?}", spec.id), expected));
        }
    }
    let mut registry = REGISTRY.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    if registry.contains_key(&spec.id) {
        return Err(Error::AlreadyRegistered { id: spec.id });
    }
    registry.insert(spec.id.clone(), Entry { spec, recipe });
    Ok(())
}

/// Makes `num_envs` copies of a registered environment, or of a Gymnasium environment in Python: `py:LunarLander-v3`
/// (see [`PyVec`](crate::python::PyVec)).
///
/// # Errors
/// Returns [`Error::UnknownEnv`] if the id is not registered, [`Error::Unsupported`] if the environment has several agents,
/// [`Error::Config`] if `env_config` does not fit the environment, [`Error::Shape`] if `num_envs` is 0, and any error of
/// making a copy ([`Error::Python`] for `py:` ids).
pub fn make_vec(id: &str, env_config: &EnvConfig, num_envs: usize) -> Result<Box<dyn AnyVectorEnv>> {
    EnvCreator::from(id).make_vec(env_config, num_envs)
}

impl From<&str> for EnvCreator {
    /// Returns a creator of the environment registered under `id`, with one agent or several. The id is looked up when
    /// copies are made.
    fn from(id: &str) -> Self {
        let owned = id.to_owned();
        Self::of_copies(id, move |config, num_envs| make(&owned, config, num_envs))
    }
}

impl From<String> for EnvCreator {
    fn from(id: String) -> Self {
        Self::from(id.as_str())
    }
}

/// Makes `num_envs` copies of the environment with this id: with one agent or several, native or in Python.
pub(crate) fn make(id: &str, env_config: &EnvConfig, num_envs: usize) -> Result<EnvCopies> {
    if let Some(id) = py::python_id(id) {
        return py::make_vec(id, env_config, num_envs).map(EnvCopies::Vector);
    }
    let make_one: Arc<MakeAgents> = if py::is_agents_id(id) {
        let id = id.to_owned();
        Arc::new(move |config| py::make_multi_agent(&id, config))
    } else {
        match look_up(id, |_| true, |entry| entry.recipe.clone())? {
            Recipe::OneAgent(creator) => return creator.make(env_config, num_envs),
            Recipe::MultiAgent(make) => make,
        }
    };
    stepped_agents(id, env_config, num_envs, &*make_one).map(EnvCopies::MultiAgent)
}

/// Makes a registered environment with several agents, or one in Python: PettingZoo's `pz:mpe2.simple_spread_v3`, or
/// Gymnasium's `ma:rware:rware-tiny-2ag-v2` (see [`PyMultiAgentEnv`](crate::python::PyMultiAgentEnv)).
///
/// ```
/// use pavlov_envs::{EnvConfig, make_multi_agent};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let config = EnvConfig::from_iter([("N".into(), 5.into())]);
/// let env = make_multi_agent("simple_spread_v3", &config)?;
/// assert_eq!(env.agents(), ["agent_0", "agent_1", "agent_2", "agent_3", "agent_4"]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns [`Error::UnknownEnv`] if the id is not registered, [`Error::Config`] if `env_config` does not fit the
/// environment, and any error of making it ([`Error::Python`] for ids in Python).
pub fn make_multi_agent(id: &str, env_config: &EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> {
    let (env_config, options) = split_options(id, env_config)?;
    let mut env = if py::is_agents_id(id) {
        py::make_multi_agent(id, &env_config)?
    } else {
        match look_up(id, is_multi_agent, |entry| entry.recipe.clone())? {
            Recipe::MultiAgent(make) => make(&env_config)?,
            Recipe::OneAgent(_) => return Err(Error::UnknownEnv { id: id.into(), nearest: None }),
        }
    };
    if let Some(options) = options {
        env.set_reset_options(&options)?;
    }
    Ok(env)
}

/// Returns the spec of a registered environment with one agent. For a `py:` id, a Python process is asked.
///
/// # Errors
/// Returns [`Error::UnknownEnv`] if the id is not registered, and [`Error::Python`] if it begins with `py:` and Python
/// does not know it or cannot be asked.
pub fn spec(id: &str) -> Result<EnvSpec> {
    if let Some(id) = py::python_id(id) {
        return py::spec(id);
    }
    look_up(id, has_one_agent, |entry| entry.spec.clone())
}

/// Returns the spec of a registered environment with several agents. Every id in Python has a spec, without limit and threshold;
/// whether Python has such an environment shows only when it is made.
///
/// # Errors
/// Returns [`Error::UnknownEnv`] if the id is not registered.
pub fn multi_agent_spec(id: &str) -> Result<EnvSpec> {
    if py::is_agents_id(id) {
        return Ok(EnvSpec {
            id: id.into(),
            summary: "an environment of several agents in Python".into(),
            max_episode_steps: None,
            reward_threshold: None,
        });
    }
    look_up(id, is_multi_agent, |entry| entry.spec.clone())
}

/// Returns the ids of all registered environments with one agent, sorted.
pub fn ids() -> Vec<String> {
    ids_of(has_one_agent)
}

/// Returns the ids of all registered environments with several agents, sorted.
pub fn multi_agent_ids() -> Vec<String> {
    ids_of(is_multi_agent)
}

fn has_one_agent(entry: &Entry) -> bool {
    matches!(entry.recipe, Recipe::OneAgent(_))
}

fn is_multi_agent(entry: &Entry) -> bool {
    matches!(entry.recipe, Recipe::MultiAgent(_))
}

fn ids_of(counts: fn(&Entry) -> bool) -> Vec<String> {
    registry().iter().filter(|(_, entry)| counts(entry)).map(|(id, _)| id.clone()).collect()
}

/// Returns what `get` reads from the entry with this id; [`Error::UnknownEnv`] if there is none for which `counts` is true.
/// `get` runs under the lock, so it must not call user code.
fn look_up<T>(id: &str, counts: fn(&Entry) -> bool, get: impl FnOnce(&Entry) -> T) -> Result<T> {
    let registry = registry();
    registry.get(id).filter(|entry| counts(entry)).map(get).ok_or_else(|| {
        let known = registry.iter().filter(|(_, entry)| counts(entry)).map(|(id, _)| id.as_str());
        Error::UnknownEnv { id: id.into(), nearest: nearest(id, known).map(str::to_owned) }
    })
}
