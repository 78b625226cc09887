//! Makes the specification from which the workers of a run are made (`WorkerSpec`), from the run's settings and the
//! user's code.

use crate::agents::{Agent, Policies};
use crate::run::policies::policies_of;
use crate::run::trainer::Trainer;
use crate::sample::{Code, WorkerNames, WorkerSpec};
use pavlov_envs::EnvCreator;
use pavlov_learn::base::{Error, Result};
use pavlov_tune::config::decode;

impl Code {
    /// The policies of a run with these settings and agents.
    ///
    /// # Errors
    /// Fails if there is a policy class for the whole run and the settings name policies, and whenever
    /// [`policies_of`] does.
    pub(crate) fn policies<T: Trainer>(&self, settings: &T, agents: &[Agent]) -> Result<Policies> {
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

    /// The specification of workers in the environment `env`, with the policies of these settings.
    ///
    /// # Errors
    /// Fails whenever [`policies`](Self::policies) does.
    pub(crate) fn spec<T: Trainer>(
        &self,
        settings: &T,
        env: &EnvCreator,
        names: WorkerNames,
    ) -> Result<WorkerSpec> {
        let policies = self.policies(settings, &names.env_info.agents)?;
        Ok(WorkerSpec { names, env: env.clone(), policies, code: self.clone() })
    }

    /// The specification of a worker in its own process. `env` is the environment of the program's builder; it is
    /// replaced if `names` has another environment.
    ///
    /// # Errors
    /// Fails if the settings cannot be read, and whenever [`policies`](Self::policies) does.
    pub(crate) fn spec_of_names<T: Trainer>(
        &self,
        env: &EnvCreator,
        names: WorkerNames,
    ) -> Result<WorkerSpec> {
        let settings: T = decode(&names.settings)?;
        let other = (names.env != env.name()).then(|| EnvCreator::from(names.env.as_str()));
        self.spec(&settings, &other.unwrap_or_else(|| env.clone()), names)
    }
}
