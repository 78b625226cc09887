//! Everything that is needed to make a rollout worker, in this process or in another.

use crate::agents::{Agent, Policies};
use crate::base::Result;
use crate::learn::nets::{CustomModel, PolicySpec};
use crate::policy::{Policy, PolicyMap};
use crate::sample::callbacks::CallbacksMaker;
use crate::settings::Common;
use pavlov_envs::EnvCreator;
use pavlov_tune::Config;

/// Everything needed to make a worker, in this process or another.
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
    /// The policies, and which agent acts by which policy.
    pub policies: Policies,
    /// The user's own network, used instead of the `model` settings.
    pub custom_model: Option<CustomModel>,
    /// Makes the hooks of each worker.
    pub callbacks: Option<CallbacksMaker>,
    /// Whether rollout workers sample; those of an evaluation only play episodes.
    pub sampling: bool,
    /// The names by which other processes make the same workers; without them workers are threads.
    pub origin: Option<Origin>,
}

/// The names by which another process makes the same workers: the trainable that `main` gives to `child_main`, and
/// the settings of the run.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The name of the trainable.
    pub trainable: String,
    /// The complete settings of the algorithm.
    pub settings: Config,
}

impl WorkerSpec {
    /// The shared settings of one policy: its own, or those of the run.
    pub(crate) fn common_of(&self, id: &str) -> &Common {
        self.policies.settings(id, &self.common)
    }

    /// Builds the policies for one worker (0: the trainer); all workers start with equal weights.
    ///
    /// # Errors
    /// Fails if a policy cannot be built, or if there are more than `multiagent.policy_map_capacity` and their folder
    /// cannot be made. Returns [`Error::UnknownPolicy`](crate::Error::UnknownPolicy) for a policy by which no agent acts.
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

    /// Builds one policy with its initial weights.
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
