//! [`Recipe`]: the settings and code from which an algorithm is made, in this process and in those of its workers.

use crate::agents::{Agent, Policies};
use crate::base::{Error, PolicyId, Result};
use crate::learn::nets::CustomModel;
use crate::policy::PolicyClass;
use crate::run::policies::policies_of;
use crate::run::resolve::to_config;
use crate::run::trainer::Trainer;
use crate::sample::{CallbacksMaker, Origin, SpecByName, WorkerSpec};
use pavlov_envs::EnvCreator;
use pavlov_tune::config::decode;
use std::sync::Arc;

/// A function from the name of an agent to the id of its policy.
pub(crate) type MappingByName = Arc<dyn Fn(&str) -> PolicyId + Send + Sync>;

/// Settings, an environment, and the user's own code: callbacks, network, policy.
#[derive(Clone)]
pub(crate) struct Recipe<T: Trainer> {
    /// The settings of the run; those of a sweep override them.
    pub(crate) settings: T,
    pub(crate) env: EnvCreator,
    pub(crate) callbacks: Option<CallbacksMaker>,
    pub(crate) policy_class: Option<PolicyClass>,
    pub(crate) custom_model: Option<CustomModel>,
    pub(crate) policy_mapping_fn: Option<MappingByName>,
}

impl<T: Trainer> std::fmt::Debug for Recipe<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recipe")
            .field("settings", &self.settings)
            .field("env", &self.env)
            .finish_non_exhaustive()
    }
}

impl<T: Trainer> Recipe<T> {
    pub(crate) fn new(settings: T, env: EnvCreator) -> Self {
        let (callbacks, policy_class, custom_model, policy_mapping_fn) = (None, None, None, None);
        Self { settings, env, callbacks, policy_class, custom_model, policy_mapping_fn }
    }

    /// The name by which processes find the trainable.
    pub(crate) fn name(&self) -> String {
        format!("{}_{}", T::NAME, self.env.name())
    }

    /// The policies of a run with these settings.
    ///
    /// # Errors
    /// Fails if there is a policy class for the whole run and the settings name policies, and whenever
    /// [`policies_of`] does.
    pub(crate) fn policies(&self, settings: &T, agents: &[Agent]) -> Result<Policies> {
        let named = settings.common().multiagent.policies.keys().next();
        match (&self.policy_class, named) {
            (Some(policy_class), None) => Ok(policy_class.clone().into()),
            (Some(policy_class), Some(id)) => {
                let rule = format!(
                    "`Builder::policy_class` gives the whole run one policy, {}; leave out one of the two",
                    policy_class.name()
                );
                Err(Error::config("multiagent.policies", format_args!("{id:?}, ..."), rule))
            }
            (None, _) => policies_of(settings, agents),
        }
    }

    /// A description of the run from which workers in other processes are made.
    ///
    /// # Errors
    /// Fails if serde does not write the settings as a JSON object.
    pub(crate) fn origin(&self, settings: &T) -> Result<Origin> {
        Ok(Origin { trainable: self.name(), settings: to_config(settings)? })
    }

    /// The spec from which a worker is made in its own process.
    ///
    /// # Errors
    /// Fails if the settings cannot be read, if the policies cannot be found, or if the run has code that this recipe
    /// lacks.
    pub(crate) fn worker_spec(&self, names: SpecByName) -> Result<WorkerSpec> {
        let settings: T = decode(&names.settings)?;
        let policies = self.policies(&settings, &names.agents)?;
        let env = match names.env == self.env.name() {
            true => self.env.clone(),
            false => EnvCreator::from(names.env.as_str()),
        };
        let spec = WorkerSpec {
            seed: names.seed,
            env,
            agents: names.agents.clone(),
            policies,
            custom_model: self.custom_model.clone(),
            callbacks: self.callbacks.clone(),
            sampling: names.sampling,
            origin: None,
            common: names.common.clone(),
        };
        names.check(&spec)?;
        Ok(spec)
    }
}
