//! TD3 (Fujimoto et al. 2018): DDPG with two critics, noise on the actions of targets, and an actor that learns in
//! every second step only.
//!
//! As in Ray, TD3 is DDPG with other defaults; the algorithm is in `ddpg.rs`.

use crate::ddpg::{Ddpg, REFUSED_KEYS};
use pavlov_trainer::{
    own_defaults,
    prelude::*,
    replay::{OffPolicy, ReplayBufferConfig, ReplayKind},
    settings::ExplorationConfig,
};
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};

/// Settings of TD3, which are those of [`Ddpg`]. Defaults are those of Ray 1.13.
///
/// ```
/// use pavlov_algorithms::Td3;
///
/// let mut td3 = Td3::default();
/// td3.delay_target = true;
/// assert!(td3.twin_q && td3.policy_delay == 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent, remote = "Self")]
pub struct Td3(pub Ddpg);

own_defaults!(Td3);

impl Default for Td3 {
    fn default() -> Self {
        let ddpg = Ddpg::default();
        Self(Ddpg {
            common: Common {
                train_batch_size: 100,
                exploration_config: ExplorationConfig::GaussianNoise {
                    random_timesteps: 10_000,
                    stddev: 0.1,
                    initial_scale: 1.0,
                    final_scale: 1.0,
                    scale_timesteps: 1,
                },
                ..ddpg.common
            },
            off_policy: OffPolicy {
                replay_buffer_config: ReplayBufferConfig {
                    kind: ReplayKind::ReplayBuffer,
                    capacity: 1_000_000,
                    learning_starts: 10_000,
                    ..ReplayBufferConfig::default()
                },
                ..OffPolicy::default()
            },
            twin_q: true,
            policy_delay: 2,
            smooth_target_policy: true,
            tau: 0.005,
            l2_reg: 0.0,
            ..ddpg
        })
    }
}

impl Deref for Td3 {
    type Target = Ddpg;

    fn deref(&self) -> &Ddpg {
        &self.0
    }
}

impl DerefMut for Td3 {
    fn deref_mut(&mut self) -> &mut Ddpg {
        &mut self.0
    }
}

impl Trainer for Td3 {
    const NAME: &'static str = "TD3";

    const REFUSED_KEYS: &'static [(&'static str, &'static str)] = REFUSED_KEYS;

    fn get_default_config() -> Self {
        Self::default()
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        self.0.validate_as(Self::NAME, spaces)
    }

    fn memory(&self, spaces: &Spaces, memory: &mut Memory) {
        self.0.memory(spaces, memory);
    }

    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        self.0.get_default_policy_class(spaces)
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        self.0.execution_plan(workers)
    }

    fn common(&self) -> &Common {
        &self.0.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.0.common
    }
}
