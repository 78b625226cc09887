//! Everything that is needed to make a rollout worker, in this process or in another.

use crate::agents::{Agent, Policies};
use crate::base::Result;
use crate::learn::nets::{CustomModel, PolicySpec};
use crate::policy::{Policy, PolicyMap};
use crate::sample::callbacks::CallbacksMaker;
use crate::settings::Common;
use pavlov_envs::EnvCreator;
use pavlov_tune::Config;

/// All that is needed to make a worker, in this process or another.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// The common settings, already validated.
    pub common: Common,
    /// The run's seed.
    pub seed: u64,
    /// The environment.
    pub env: EnvCreator,
    /// The agents that act in the environment.
    pub agents: Vec<Agent>,
    /// The policies, and which agent acts by which.
    pub policies: Policies,
    /// A network of the user's own, in place of the `model` settings'.
    pub custom_model: Option<CustomModel>,
    /// What makes the hooks of each worker.
    pub callbacks: Option<CallbacksMaker>,
    /// Whether rollout workers sample; those of an evaluation only play episodes.
    pub sampling: bool,
    /// Where processes find all this; without it workers are threads.
    pub origin: Option<Origin>,
}

/// Where workers come from: the trainable that `main` gives to `child_main`, and the settings of the run.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The name of the trainable.
    pub trainable: String,
    /// The settings of the algorithm, complete.
    pub settings: Config,
}

impl WorkerSpec {
    /// The shared settings as they are for one policy.
    pub(crate) fn common_of(&self, id: &str) -> &Common {
        self.policies.settings(id, &self.common)
    }

    /// The policies as a worker of that index has them; all workers start with equal weights.
    ///
    /// # Errors
    /// Fails if a policy cannot be made, or there are more than `multiagent.policy_map_capacity` and no folder for them.
    /// Returns [`Error::UnknownPolicy`] if no agent acts by one of them.
    pub fn policies(&self, worker_index: usize, device: tch::Device) -> Result<PolicyMap> {
        let (capacity, all) = (self.common.multiagent.policy_map_capacity, self.policies.classes().count());
        let mut map = match all > capacity {
            false => PolicyMap::default(),
            true => {
                let (cache, spec) = (self.common.multiagent.policy_map_cache.as_deref(), self.clone());
                PolicyMap::with_capacity(capacity, cache, move |id| spec.policy(id, worker_index, device))?
            }
        };
        for (id, _) in self.policies.classes() {
            map.insert(id.clone(), self.policy(id, worker_index, device)?);
            map.make_room()?;
        }
        Ok(map)
    }

    /// One of them as it is in the beginning.
    fn policy(&self, id: &str, worker_index: usize, device: tch::Device) -> Result<Box<dyn Policy>> {
        let spaces = self.policies.spaces(id, &self.agents)?;
        let spec = PolicySpec {
            own_obs: self.common.own_obs(spaces),
            spaces: self.common.stored(spaces),
            seed: Policies::seed(self.seed, id),
            device,
            fused: self.common_of(id).model.fused,
            custom_model: self.custom_model.clone(),
            worker_index,
            num_workers: self.common.num_workers,
        };
        self.policies.class(id)?.build(&spec)
    }
}
