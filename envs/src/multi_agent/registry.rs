//! Multi-agent environments by id, for the whole process.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, RwLock},
};

use super::AnyMultiAgentEnv;
use crate::{EnvConfig, EnvSpec, Error, Result, native, nearest::nearest, py};

type Make = dyn Fn(&EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> + Send + Sync;

#[derive(Clone)]
struct Entry {
    spec: EnvSpec,
    make: Arc<Make>,
}

static REGISTRY: LazyLock<RwLock<BTreeMap<String, Entry>>> = LazyLock::new(|| {
    let entries = native::multi_agent_entries().into_iter();
    RwLock::new(entries.map(|(spec, make)| (spec.id.clone(), Entry { spec, make: Arc::new(make) })).collect())
});

/// Makes a multi-agent environment known by `spec.id` everywhere in this process. Ids of environments with one agent
/// and with several do not meet.
///
/// # Errors
/// Returns [`Error::AlreadyRegistered`] if the id is taken, and [`Error::Shape`] if it begins with `pz:`.
pub fn register_multi_agent(
    spec: EnvSpec,
    make: impl Fn(&EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> + Send + Sync + 'static,
) -> Result<()> {
    if py::pettingzoo_id(&spec.id).is_some() {
        let expected = "one without `pz:`, which stands for environments in Python";
        return Err(Error::shape("the id", format_args!("{:?}", spec.id), expected));
    }
    let mut registry = REGISTRY.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    if registry.contains_key(&spec.id) {
        return Err(Error::AlreadyRegistered { id: spec.id });
    }
    registry.insert(spec.id.clone(), Entry { spec, make: Arc::new(make) });
    Ok(())
}

/// Makes a registered multi-agent environment, or a PettingZoo environment in Python: `pz:mpe2.simple_spread_v3` (see
/// [`PyMultiAgentEnv`](crate::PyMultiAgentEnv)).
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
/// Returns [`Error::UnknownEnv`] if the id is not registered, [`Error::Config`] if the environment does not have a
/// setting, and whatever making it reports ([`Error::Python`] for `pz:`).
pub fn make_multi_agent(id: &str, env_config: &EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> {
    if let Some(id) = py::pettingzoo_id(id) {
        return py::make_multi_agent(id, env_config);
    }
    // The lock is not held while user code runs.
    (look_up(id)?.make)(env_config)
}

/// What is known about a registered multi-agent environment; of `pz:` ids nothing is, so whether Python has them shows
/// when they are made.
///
/// # Errors
/// Returns [`Error::UnknownEnv`] if the id is not registered.
pub fn multi_agent_spec(id: &str) -> Result<EnvSpec> {
    if py::pettingzoo_id(id).is_some() {
        return Ok(EnvSpec {
            id: id.into(),
            summary: "a PettingZoo environment in Python".into(),
            max_episode_steps: None,
            reward_threshold: None,
        });
    }
    Ok(look_up(id)?.spec)
}

/// The ids of all registered multi-agent environments, sorted.
pub fn multi_agent_ids() -> Vec<String> {
    REGISTRY.read().unwrap_or_else(|poisoned| poisoned.into_inner()).keys().cloned().collect()
}

fn look_up(id: &str) -> Result<Entry> {
    let registry = REGISTRY.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    registry.get(id).cloned().ok_or_else(|| Error::UnknownEnv {
        id: id.into(),
        nearest: nearest(id, registry.keys().map(String::as_str)).map(str::to_owned),
    })
}
