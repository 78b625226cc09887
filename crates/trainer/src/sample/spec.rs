//! [`WorkerSpec`]: everything that a rollout worker is made from, in this process or in another.

use crate::agents::{Agent, EnvInfo, Policies};
use crate::base::PolicyId;
use crate::policy::{Policy, PolicyClass, PolicyMap};
use crate::sample::callbacks::CallbacksMaker;
use crate::settings::Common;
use pavlov_envs::EnvCreator;
use pavlov_learn::base::{Device, Error, Result};
use pavlov_learn::nets::{CustomModel, PolicySpec};
use pavlov_tune::Config;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The serialisable part of a [`WorkerSpec`]: another process of the same executable makes the same worker from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerNames {
    /// Name of the trainable, by which another process finds it among those that `main` passes to `child_main`. Without
    /// a name workers can only be threads.
    pub trainable: Option<String>,
    /// The complete settings of the algorithm.
    pub settings: Config,
    /// The common settings of these workers, already validated. In an evaluation some of them differ from the run's.
    pub common: Common,
    /// The id of the environment.
    pub env: String,
    /// The agents that act in the environment, and its scalar types.
    pub env_info: EnvInfo,
    /// Whether the workers sample for training; those of an evaluation only play episodes.
    pub sampling: bool,
}

/// A function from the name of an agent to the id of its policy.
pub(crate) type MappingByName = Arc<dyn Fn(&str) -> PolicyId + Send + Sync>;

/// The user's own code in a run. It is not sent to other processes: they run the same executable and have it already.
#[derive(Clone, Default)]
pub struct Code {
    /// Makes the callbacks object of each worker.
    pub(crate) callbacks: Option<CallbacksMaker>,
    /// Network of the user's own.
    pub(crate) custom_model: Option<CustomModel>,
    /// Policy class of the user's own.
    pub(crate) policy_class: Option<PolicyClass>,
    /// Function of the user's own that maps agents to policies.
    pub(crate) policy_mapping_fn: Option<MappingByName>,
}

impl Code {
    /// Sets the network in the place of that of the `model` settings.
    #[must_use]
    pub fn with_custom_model(self, model: CustomModel) -> Self {
        Self { custom_model: Some(model), ..self }
    }

    /// Sets the policy class in the place of the algorithm's own.
    #[must_use]
    pub fn with_policy_class(self, policy_class: PolicyClass) -> Self {
        Self { policy_class: Some(policy_class), ..self }
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").finish_non_exhaustive()
    }
}

/// Everything that a rollout worker is made from: a serialisable part, and the code that it names in this process.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// The serialisable part, which is equal in all processes of the run.
    pub names: WorkerNames,
    /// The constructor of the environment.
    pub env: EnvCreator,
    /// The policies, and the mapping of agents to policies.
    pub policies: Policies,
    /// The user's own code: callbacks, network, policy class and mapping function.
    pub code: Code,
}

impl WorkerSpec {
    /// The agents that act in the environment.
    pub fn agents(&self) -> &[Agent] {
        &self.names.env_info.agents
    }

    /// The run's seed.
    pub(crate) fn seed(&self) -> u64 {
        self.names.common.seed.unwrap_or_default()
    }

    /// The common settings of one policy: its own if it has any, otherwise those of the run.
    pub(crate) fn common_of(&self, id: &str) -> &Common {
        self.policies.settings(id, &self.names.common)
    }

    /// Builds the policies of one worker (index 0 is the trainer); all workers start with equal weights.
    ///
    /// # Errors
    /// Fails if a policy cannot be built, or if there are more than `multiagent.policy_map_capacity` policies and the
    /// folder for their files cannot be made. Returns [`Error::UnknownPolicy`] for a
    /// policy by which no agent acts.
    pub fn policies(&self, worker_index: usize, device: Device) -> Result<PolicyMap> {
        let multi = &self.names.common.multiagent;
        let mut map = if self.policies.classes().count() > multi.policy_map_capacity {
            let spec = self.clone();
            let make = move |id: &str| spec.policy(id, worker_index, device);
            PolicyMap::with_capacity(multi.policy_map_capacity, multi.policy_map_cache.as_deref(), make)?
        } else {
            PolicyMap::default()
        };
        for (id, _) in self.policies.classes() {
            map.insert(id.clone(), self.policy(id, worker_index, device)?);
            map.make_room()?;
        }
        Ok(map)
    }

    /// Builds one policy with its initial weights.
    fn policy(&self, id: &str, worker_index: usize, device: Device) -> Result<Box<dyn Policy>> {
        let common = &self.names.common;
        let spaces = self.policies.spaces(id, self.agents())?;
        let spec = PolicySpec {
            own_obs: common.own_obs_width(spaces),
            spaces: common.policy_spaces(spaces),
            seed: Policies::seed(self.seed(), id),
            device,
            fused: self.common_of(id).model.fused,
            custom_model: self.code.custom_model.clone(),
            worker_index,
            num_workers: common.num_workers,
        };
        self.policies.class(id)?.build(&spec)
    }

    /// Name of the trainable, by which another process finds it.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the trainable has no name.
    pub(crate) fn trainable(&self) -> Result<&str> {
        self.names.trainable.as_deref().ok_or_else(|| {
            let rule =
                "workers in processes need an algorithm that is built by name or by `TrainerExt::build`";
            let workers = format!("\"{}\"", self.names.common.workers.transport.name());
            Error::config("workers", workers, rule)
        })
    }

    /// Describes the user's code of the run by kind: callbacks, custom model, policy classes. Processes with the same
    /// builder get equal descriptions.
    pub(crate) fn code_names(&self) -> BTreeMap<String, String> {
        let classes = self.policies.classes().map(|(id, class)| format!("{id}: {}", class.name()));
        BTreeMap::from([
            ("callbacks".into(), self.code.callbacks.is_some().to_string()),
            (
                "custom model".into(),
                self.code.custom_model.as_ref().map_or("none", CustomModel::name).to_owned(),
            ),
            ("policy classes".into(), classes.collect::<Vec<_>>().join(", ")),
        ])
    }

    /// Returns an error if the code of this process differs from that of the run, whose description is `wanted`.
    ///
    /// # Errors
    /// Returns [`Error::State`] with the kind of code that differs and the way to mend it.
    pub(crate) fn check_code(&self, wanted: &BTreeMap<String, String>) -> Result<()> {
        let found = self.code_names();
        let differs = found.iter().find(|(what, name)| wanted.get(*what) != Some(*name));
        let Some((what, _)) = differs else { return Ok(()) };
        let reason = format!(
            "it has other {what} in a worker's process than in the run: give `child_main` what \
             `Builder::as_trainable` of the run's own builder returns"
        );
        Err(Error::state(format!("the trainable {}", self.trainable()?), reason))
    }
}
