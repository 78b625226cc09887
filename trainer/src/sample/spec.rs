//! Everything that is needed to make a rollout worker, in this process or in another.

use crate::agents::{Agent, EnvInfo, Policies};
use crate::base::{Error, PolicyId, Result};
use crate::learn::nets::{CustomModel, PolicySpec};
use crate::policy::{Policy, PolicyClass, PolicyMap};
use crate::sample::callbacks::CallbacksMaker;
use crate::settings::Common;
use pavlov_envs::EnvCreator;
use pavlov_tune::Config;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names and numbers of a worker: another process of the same executable makes the same worker from them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerNames {
    /// The name by which other processes find the trainable in what `main` gives to `child_main`; without a name
    /// workers are threads.
    pub trainable: Option<String>,
    /// The complete settings of the algorithm.
    pub settings: Config,
    /// The common settings as these workers have them, already validated. In an evaluation some differ from the run's.
    pub common: Common,
    /// The id of the environment.
    pub env: String,
    /// The agents that act in the environment, and its scalar types.
    pub env_info: EnvInfo,
    /// Whether rollout workers sample; those of an evaluation only play episodes.
    pub sampling: bool,
}

/// A function from the name of an agent to the id of its policy.
pub(crate) type MappingByName = Arc<dyn Fn(&str) -> PolicyId + Send + Sync>;

/// The user's own code in a run. It never leaves the process; other processes of the same executable have it, too.
#[derive(Clone, Default)]
pub struct Code {
    pub(crate) callbacks: Option<CallbacksMaker>,
    pub(crate) custom_model: Option<CustomModel>,
    pub(crate) policy_class: Option<PolicyClass>,
    pub(crate) policy_mapping_fn: Option<MappingByName>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").finish_non_exhaustive()
    }
}

/// Everything needed to make a worker: names and numbers, and the code that they name in this process.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// Names and numbers, which are equal in all processes of the run.
    pub names: WorkerNames,
    /// The environment.
    pub env: EnvCreator,
    /// The policies, and which agent acts by which policy.
    pub policies: Policies,
    /// The user's own code: callbacks, network.
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

    /// The shared settings of one policy: its own, or those of the run.
    pub(crate) fn common_of(&self, id: &str) -> &Common {
        self.policies.settings(id, &self.names.common)
    }

    /// Builds the policies for one worker (0: the trainer); all workers start with equal weights.
    ///
    /// # Errors
    /// Fails if a policy cannot be built, or if there are more than `multiagent.policy_map_capacity` and their folder
    /// cannot be made. Returns [`Error::UnknownPolicy`](crate::Error::UnknownPolicy) for a policy by which no agent acts.
    pub fn policies(&self, worker_index: usize, device: tch::Device) -> Result<PolicyMap> {
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
    fn policy(&self, id: &str, worker_index: usize, device: tch::Device) -> Result<Box<dyn Policy>> {
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

    /// The name by which other processes find the trainable.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if there is none.
    pub(crate) fn trainable(&self) -> Result<&str> {
        self.names.trainable.as_deref().ok_or_else(|| {
            let rule =
                "workers in processes need an algorithm that is built by name or by `TrainerExt::build`";
            let workers = format!("\"{}\"", self.names.common.workers.transport.name());
            Error::config("workers", workers, rule)
        })
    }

    /// Which code the run has, by its kind: equal in every process that has the same builder.
    pub(crate) fn code_names(&self) -> BTreeMap<String, String> {
        let classes = self.policies.classes().map(|(id, class)| format!("{id}: {}", class.name()));
        BTreeMap::from([
            ("callbacks".into(), self.code.callbacks.is_some().to_string()),
            ("custom model".into(), self.code.custom_model.is_some().to_string()),
            ("policy classes".into(), classes.collect::<Vec<_>>().join(", ")),
        ])
    }

    /// Returns an error if the code of this process differs from the run's, which is `wanted`.
    ///
    /// # Errors
    /// Returns [`Error::State`] with the difference and the way out.
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
