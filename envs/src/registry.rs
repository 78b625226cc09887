//! Environments by id, for the whole process.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, RwLock},
};

use crate::{
    AnyVectorEnv, EnvConfig, EnvCopies, EnvCreator, EnvSpec, Error, IntoEnvCreator, Result, make_multi_agent,
    multi_agent_ids, native, nearest::nearest, py,
};

struct Entry {
    spec: EnvSpec,
    creator: EnvCreator,
}

static REGISTRY: LazyLock<RwLock<BTreeMap<String, Entry>>> = LazyLock::new(|| {
    let entry = |(spec, creator): (EnvSpec, EnvCreator)| (spec.id.clone(), Entry { spec, creator });
    RwLock::new(native::entries().into_iter().map(entry).collect())
});

/// Makes an environment known by `spec.id` everywhere in this process. Its episodes are truncated after
/// `spec.max_episode_steps`.
///
/// ```
/// use pavlov_envs::{CartPole, CartPoleConfig, EnvConfig, EnvSpec, make_vec, register};
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
/// Returns [`Error::AlreadyRegistered`] if the id is taken, and [`Error::Shape`] if it begins with `py:` or if
/// `max_episode_steps` is 0.
pub fn register(spec: EnvSpec, creator: impl IntoEnvCreator) -> Result<()> {
    if py::python_id(&spec.id).is_some() {
        let expected = "one without `py:`, which stands for environments in Python";
        return Err(Error::shape("the id", format_args!("{:?}", spec.id), expected));
    }
    let mut registry = REGISTRY.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    if registry.contains_key(&spec.id) {
        return Err(Error::AlreadyRegistered { id: spec.id });
    }
    let mut creator = creator.into_env_creator();
    if let Some(steps) = spec.max_episode_steps {
        creator = creator.limited(steps)?;
    }
    registry.insert(spec.id.clone(), Entry { spec, creator });
    Ok(())
}

/// Makes `num_envs` copies of a registered environment, or of a Gymnasium environment in Python: `py:LunarLander-v3`
/// (see [`PyVec`](crate::PyVec)).
///
/// # Errors
/// Returns [`Error::UnknownEnv`] if the id is not registered, [`Error::Unsupported`] if the environment has several
/// agents, [`Error::Config`] if it does not have a setting, [`Error::Shape`] if `num_envs` is 0, and whatever making a
/// copy reports ([`Error::Python`] for `py:`).
pub fn make_vec(id: &str, env_config: &EnvConfig, num_envs: usize) -> Result<Box<dyn AnyVectorEnv>> {
    EnvCreator::from(id).make_vec(env_config, num_envs)
}

impl From<&str> for EnvCreator {
    /// A registered id, of one agent or of several; looked up when copies are made.
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

/// Copies of whatever has this id: an environment with one agent or with several, here or in Python.
pub(crate) fn make(id: &str, env_config: &EnvConfig, num_envs: usize) -> Result<EnvCopies> {
    if py::pettingzoo_id(id).is_some() || multi_agent_ids().iter().any(|known| known == id) {
        let copies = (0..num_envs).map(|_| make_multi_agent(id, env_config));
        return Ok(EnvCopies::MultiAgent(copies.collect::<Result<_>>()?));
    }
    if let Some(id) = py::python_id(id) {
        return py::make_vec(id, env_config, num_envs).map(EnvCopies::Vector);
    }
    // The lock is not held while user code runs.
    let Ok(creator) = look_up(id, |entry| entry.creator.clone()) else {
        let known = ids().into_iter().chain(multi_agent_ids()).collect::<Vec<_>>();
        let nearest = nearest(id, known.iter().map(String::as_str)).map(str::to_owned);
        return Err(Error::UnknownEnv { id: id.into(), nearest });
    };
    creator.make(env_config, num_envs)
}

/// What is known about a registered environment; for `py:` a Python process is asked.
///
/// # Errors
/// Returns [`Error::UnknownEnv`] if the id is not registered, and [`Error::Python`] if it begins with `py:` and Python
/// does not know it or cannot be asked.
pub fn spec(id: &str) -> Result<EnvSpec> {
    if let Some(id) = py::python_id(id) {
        return py::spec(id);
    }
    look_up(id, |entry| entry.spec.clone())
}

/// All registered ids, sorted.
pub fn ids() -> Vec<String> {
    REGISTRY.read().unwrap_or_else(|poisoned| poisoned.into_inner()).keys().cloned().collect()
}

fn look_up<T>(id: &str, get: impl FnOnce(&Entry) -> T) -> Result<T> {
    let registry = REGISTRY.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    registry.get(id).map(get).ok_or_else(|| Error::UnknownEnv {
        id: id.into(),
        nearest: nearest(id, registry.keys().map(String::as_str)).map(str::to_owned),
    })
}
