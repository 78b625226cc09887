//! The environment argument of a trainer: an id, a closure, or an [`EnvCreator`].

use std::{fmt, sync::Arc};

use serde::de::DeserializeOwned;

use crate::{
    AnyVectorEnv, Env, EnvConfig, Error, ExternalEnv, MultiAgentEnv, MultiAgentVector, Result, VectorEnv,
    contract::type_name::short_type_name,
    python,
    registry::{
        common_settings::{split_options, split_threads, stepped, stepped_agents},
        env_config::decode_config,
    },
    running::agents::{GlobalState, Grouped, TimeLimit},
    wrappers::{WrapperSpec, by_name},
};

/// Copies of one environment that are ready to be stepped.
#[derive(Debug)]
pub enum EnvCopies {
    /// Single-agent copies, stepped together.
    Vector(Box<dyn AnyVectorEnv>),
    /// Multi-agent copies, stepped together.
    MultiAgent(MultiAgentVector),
    /// Episodes that other programs play.
    External(ExternalEnv),
}

type Make = dyn Fn(&EnvConfig, usize) -> Result<EnvCopies> + Send + Sync;

/// Makes copies of one environment. Clones share the closure that makes them.
#[derive(Clone)]
pub struct EnvCreator {
    name: Arc<str>,
    make: Arc<Make>,
}

impl EnvCreator {
    /// Creates copies with `make_vec`, which gets the `env_config` and the number of copies.
    pub fn new(
        name: impl Into<String>,
        make_vec: impl Fn(&EnvConfig, usize) -> Result<Box<dyn AnyVectorEnv>> + Send + Sync + 'static,
    ) -> Self {
        Self::of_copies(name, move |config, num_envs| make_vec(config, num_envs).map(EnvCopies::Vector))
    }

    pub(crate) fn of_copies(
        name: impl Into<String>,
        make: impl Fn(&EnvConfig, usize) -> Result<EnvCopies> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into().into(), make: Arc::new(make) }
    }

    /// Creates copies with `make`, which gets the `env_config` as a settings struct `C`. A key that the default of `C` does
    /// not have is an error, which suggests the nearest key. The copies are stepped one after the other. With the key
    /// `num_threads`, which `C` need not have, that many threads share the copies, with the same results.
    ///
    /// ```
    /// use pavlov_envs::{EnvCreator, native::{CartPole, CartPoleConfig}};
    ///
    /// let creator = EnvCreator::configured(|config: CartPoleConfig| Ok(CartPole::new(config)));
    /// ```
    pub fn configured<C, E: Env>(make: impl Fn(C) -> Result<E> + Send + Sync + 'static) -> Self
    where
        C: Default + Clone + serde::Serialize + DeserializeOwned,
    {
        let name = short_type_name::<E>();
        Self::new(name.clone(), move |config, num_envs| {
            let (config, num_threads) = split_threads::<C>(&name, config)?;
            let config: C = decode_config(&name, &config)?;
            stepped(num_envs, num_threads, || make(config.clone()))
        })
    }

    /// Creates a vector environment that steps all its copies itself: `EnvCreator::vector(MyVectorEnv::new)`.
    pub fn vector<V: VectorEnv + 'static>(make: impl Fn(usize) -> V + Send + Sync + 'static) -> Self {
        let name = short_type_name::<V>();
        Self::new(name.clone(), move |config, num_envs| {
            refuse_config(&name, config, "EnvCreator::new")?;
            Ok(Box::new(make(num_envs)))
        })
    }

    /// Creates multi-agent copies; `make` makes one of them. With the key `num_threads` in `env_config`, that many threads
    /// share the copies, with the same results.
    ///
    /// ```
    /// use pavlov_envs::{EnvConfig, EnvCopies, EnvCreator, native::BoardGame};
    ///
    /// # fn main() -> pavlov_envs::Result<()> {
    /// let creator = EnvCreator::multi_agent(BoardGame::tictactoe);
    /// assert!(matches!(creator.make(&EnvConfig::new(), 2)?, EnvCopies::MultiAgent(copies) if copies.num_envs() == 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi_agent<E: MultiAgentEnv>(make: impl Fn() -> E + Send + Sync + 'static) -> Self {
        let name = short_type_name::<E>();
        Self::of_copies(name.clone(), move |config, num_envs| {
            let copies = stepped_agents(&name, config, num_envs, &|config| {
                refuse_config(&name, config, "register_multi_agent")?;
                Ok(Box::new(make()))
            });
            copies.map(EnvCopies::MultiAgent)
        })
    }

    /// Creates an environment whose episodes other programs play; `make` gets the `env_config`.
    pub fn external(
        name: impl Into<String>,
        make: impl Fn(&EnvConfig) -> Result<ExternalEnv> + Send + Sync + 'static,
    ) -> Self {
        Self::of_copies(name, move |config, _| make(config).map(EnvCopies::External))
    }

    /// Returns a creator that puts these wrappers around every copy; the first wrapper is the innermost.
    ///
    /// Most wrappers are put around the vector as a whole, so a native vector environment still steps all copies at once.
    /// `AtariPreprocessing`, `MaxAndSkipObservation`, `RecordVideo`, and `TimeLimit` if the vector cannot truncate episodes itself, are put
    /// around each copy separately: an environment in Python then has one process per copy. Environments of MiniGrid apply
    /// MiniGrid's wrappers themselves, and those in Python (`py:`) MiniGrid's and `FilterObservation`.
    #[must_use]
    pub fn wrapped(&self, wrappers: &[WrapperSpec]) -> Self {
        let (own, wrappers) = by_name::split_own(self.name(), wrappers);
        let inner = if own.is_empty() { self.clone() } else { self.with_own_wrappers(own) };
        if wrappers.is_empty() { inner } else { inner.wrapped_in_rust(wrappers) }
    }

    fn wrapped_in_rust(&self, wrappers: &[WrapperSpec]) -> Self {
        let inner = self.clone();
        let wrappers = wrappers.to_vec();
        Self::of_copies(self.name(), move |config, num_envs| {
            let make = |copies| match inner.make(config, copies)? {
                EnvCopies::Vector(copies) => Ok(copies),
                EnvCopies::MultiAgent(_) => {
                    let way_out =
                        "it has several agents: change it where it is made, and leave `wrappers` out";
                    Err(Error::unsupported(inner.name(), "wrappers", way_out))
                }
                EnvCopies::External(_) => {
                    let way_out = "other programs play it: wrap it there, and leave `wrappers` out";
                    Err(Error::unsupported(inner.name(), "wrappers", way_out))
                }
            };
            by_name::wrapped(inner.name(), &wrappers, num_envs, &make).map(EnvCopies::Vector)
        })
    }

    /// Returns a creator whose environments apply these wrappers themselves, by the key `wrappers` of their `env_config`.
    fn with_own_wrappers(&self, wrappers: &[WrapperSpec]) -> Self {
        let inner = self.clone();
        let wrappers = wrappers.to_vec();
        Self::of_copies(self.name(), move |config, num_envs| {
            let mut names = wrappers.iter().map(WrapperSpec::to_string);
            if !["MiniGrid-", python::PREFIX].iter().any(|family| inner.name().starts_with(family)) {
                let name = names.next().unwrap_or_default();
                let message =
                    format!("the wrapper {name} stands around environments of MiniGrid only (`MiniGrid-*`)");
                return Err(Error::Config { env: inner.name().into(), message });
            }
            let mut config = config.clone();
            // A vector that Python steps as a whole has no single environments for wrappers in Python.
            let is_filter = |spec: &WrapperSpec| spec.to_string().starts_with("FilterObservation");
            if config.get("vectorization").is_some_and(|kind| kind != "loop")
                && wrappers.iter().all(is_filter)
            {
                return inner.wrapped_in_rust(&wrappers).make(&config, num_envs);
            }
            if config.contains_key("wrappers") {
                let message =
                    "`wrappers` that it applies itself stand in `env_config` and beside it; keep one of the two".into();
                return Err(Error::Config { env: inner.name().into(), message });
            }
            config.insert("wrappers".into(), names.collect());
            inner.make(&config, num_envs)
        })
    }

    /// Returns a creator of the same multi-agent environment whose agents observe `Dict(obs, state)`: `obs` is the
    /// agent's own observation, and `state` is the tuple of all agents' observations.
    #[must_use]
    pub fn with_global_state(&self) -> Self {
        let inner = self.clone();
        Self::of_copies(self.name(), move |config, num_envs| match inner.make(config, num_envs)? {
            EnvCopies::MultiAgent(copies) => {
                copies.wrapped(|copy| Ok(Box::new(GlobalState::new(copy)))).map(EnvCopies::MultiAgent)
            }
            EnvCopies::Vector(_) | EnvCopies::External(_) => {
                let way_out = "it has one agent, whose observation is all there is; leave it out";
                Err(Error::unsupported(inner.name(), "global state", way_out))
            }
        })
    }

    /// Returns a creator of the same multi-agent environment in which each group of agents is one agent. A group
    /// observes the tuple of its members' observations, chooses one action per member, and gets the sum of their
    /// rewards. `group_of` maps an agent's name to the name of its group; `None` leaves the agent ungrouped.
    ///
    /// ```
    /// use pavlov_envs::{EnvConfig, EnvCopies, EnvCreator};
    ///
    /// # fn main() -> pavlov_envs::Result<()> {
    /// let team = EnvCreator::from("simple_spread_v3").with_agent_groups(|_| Some("team".into()));
    /// let EnvCopies::MultiAgent(copies) = team.make(&EnvConfig::new(), 1)? else { unreachable!() };
    /// assert_eq!(copies.agents(), ["team"]);
    /// assert_eq!(copies.action_space(0).to_string(), "MultiDiscrete([5, 5, 5])");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_agent_groups(
        &self,
        group_of: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let inner = self.clone();
        Self::of_copies(self.name(), move |config, num_envs| match inner.make(config, num_envs)? {
            EnvCopies::MultiAgent(copies) => {
                let grouped =
                    copies.wrapped(|copy| Ok(Box::new(Grouped::new(inner.name(), copy, &group_of)?)));
                grouped.map(EnvCopies::MultiAgent)
            }
            EnvCopies::Vector(_) | EnvCopies::External(_) => {
                let way_out = "it has one agent; take an environment of several, or an algorithm for one";
                Err(Error::unsupported(inner.name(), "group of agents", way_out))
            }
        })
    }

    /// Returns a creator whose episodes are truncated after `steps` steps, by the vector environment itself or else by a
    /// [`TimeLimit`](crate::wrappers::TimeLimit) wrapper around each copy.
    pub(crate) fn limited(self, steps: usize) -> Self {
        let by_wrapper = self.wrapped(&[WrapperSpec::time_limit(steps)]);
        Self::of_copies(self.name().to_owned(), move |config, num_envs| {
            match self.make(config, num_envs)? {
                EnvCopies::Vector(mut vector) => {
                    if vector.limit_episodes(steps) {
                        return Ok(EnvCopies::Vector(vector));
                    }
                }
                EnvCopies::MultiAgent(copies) => {
                    let cut = copies.wrapped(|copy| Ok(Box::new(TimeLimit::new(copy, steps))));
                    return cut.map(EnvCopies::MultiAgent);
                }
                external @ EnvCopies::External(_) => return Ok(external),
            }
            let env = self.name();
            tracing::info!(env, "made copy by copy: together they cannot be truncated after {steps} steps");
            by_wrapper.make(config, num_envs)
        })
    }

    /// Returns the id of the environment, or the name of its type if a closure makes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes `num_envs` copies of a single-agent or a multi-agent environment.
    ///
    /// # Errors
    /// Returns [`Error::UnknownEnv`] if the id is not registered, [`Error::Config`] if `env_config` does not fit the
    /// environment, [`Error::Shape`] if `num_envs` is 0, and any error of the environment.
    pub fn make(&self, env_config: &EnvConfig, num_envs: usize) -> Result<EnvCopies> {
        if num_envs == 0 {
            return Err(Error::shape("`num_envs`", 0, "at least 1"));
        }
        let (env_config, options) = split_options(&self.name, env_config)?;
        let mut copies = (self.make)(&env_config, num_envs)?;
        if let Some(options) = options {
            match &mut copies {
                EnvCopies::Vector(vector) => vector.set_reset_options(&options)?,
                EnvCopies::MultiAgent(copies) => copies.set_reset_options(&options)?,
                EnvCopies::External(_) => {
                    let way_out = "other programs reset it: leave `options` out";
                    return Err(Error::unsupported(&self.name, "options for `reset`", way_out));
                }
            }
        }
        Ok(copies)
    }

    /// Makes `num_envs` copies of a single-agent environment.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the environment has several agents, [`Error::UnknownEnv`] if the id is not
    /// registered, [`Error::Config`] if `env_config` does not fit the environment, [`Error::Shape`] if `num_envs` is 0,
    /// and any error of the environment.
    pub fn make_vec(&self, env_config: &EnvConfig, num_envs: usize) -> Result<Box<dyn AnyVectorEnv>> {
        match self.make(env_config, num_envs)? {
            EnvCopies::Vector(copies) => Ok(copies),
            EnvCopies::MultiAgent(_) => {
                let way_out = "it has several agents: make its copies with `EnvCreator::make`";
                Err(Error::unsupported(&self.name, "vector of copies", way_out))
            }
            EnvCopies::External(_) => {
                let way_out = "other programs play it: only training takes their episodes";
                Err(Error::unsupported(&self.name, "vector of copies", way_out))
            }
        }
    }
}

impl fmt::Debug for EnvCreator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvCreator").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Types that can be used as an environment: an id, a closure that makes one copy, or an [`EnvCreator`].
///
/// ```no_run
/// # use pavlov_envs::{EnvCreator, IntoEnvCreator, native::{CartPole, CartPoleConfig}};
/// fn build(env: impl IntoEnvCreator) -> EnvCreator {
///     env.into_env_creator()
/// }
/// build("CartPole-v1");
/// build(|| CartPole::new(CartPoleConfig::default()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no environment argument: neither an id, nor a closure that makes one copy, nor an `EnvCreator`",
    label = "give an id such as \"CartPole-v1\", or a closure that makes one copy: `|| MyEnv::new()`",
    note = "every copy of the environment is made by the closure, whose result must implement `Env`",
    note = "for several agents: `EnvCreator::multi_agent(|| MyEnv::new())`, where `MyEnv` implements `MultiAgentEnv`",
    note = "for a vector that steps all copies itself: `EnvCreator::vector(MyVectorEnv::new)`",
    note = "for a constructor that may fail or reads `env_config`: `EnvCreator::configured(|config| ..)`"
)]
pub trait IntoEnvCreator {
    /// Converts the value into an [`EnvCreator`].
    fn into_env_creator(self) -> EnvCreator;
}

impl IntoEnvCreator for EnvCreator {
    fn into_env_creator(self) -> EnvCreator {
        self
    }
}

impl IntoEnvCreator for &EnvCreator {
    fn into_env_creator(self) -> EnvCreator {
        self.clone()
    }
}

impl IntoEnvCreator for &str {
    fn into_env_creator(self) -> EnvCreator {
        self.into()
    }
}

impl IntoEnvCreator for String {
    fn into_env_creator(self) -> EnvCreator {
        self.into()
    }
}

impl IntoEnvCreator for &String {
    fn into_env_creator(self) -> EnvCreator {
        self.as_str().into()
    }
}

// So that the message above is shown, and not that of a bound of this implementation.
#[diagnostic::do_not_recommend]
impl<E: Env, F: Fn() -> E + Send + Sync + 'static> IntoEnvCreator for F {
    fn into_env_creator(self) -> EnvCreator {
        let name = short_type_name::<E>();
        EnvCreator::new(name.clone(), move |config, num_envs| {
            let (config, num_threads) = split_threads::<()>(&name, config)?;
            refuse_config(&name, &config, "EnvCreator::configured")?;
            stepped(num_envs, num_threads, || Ok(self()))
        })
    }
}

fn refuse_config(env: &str, config: &EnvConfig, way_out: &str) -> Result<()> {
    let Some(key) = config.keys().next() else { return Ok(()) };
    Err(Error::Config {
        env: env.into(),
        message: format!(
            "`{key}` is given, but this environment is made by a closure without settings; use `{way_out}`"
        ),
    })
}
