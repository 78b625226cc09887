//! What a run must know of its environment before workers start.

use crate::agents::agent::Agent;
use crate::base::Result;
use crate::run::{check_groups, with_way_out};
use crate::settings::Common;
use pavlov_envs::{DType, EnvCopies, EnvCreator, check_any_multi_agent_env, check_vector_env};

/// What an environment is like, found out by making two copies of it.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) agents: Vec<Agent>,
    pub(crate) obs_dtype: DType,
    pub(crate) act_dtype: DType,
}

impl Probe {
    /// Makes the environment, checks its contract unless `disable_env_checking` is set, and drops it again.
    pub(crate) fn new(env: &EnvCreator, common: &Common) -> Result<Self> {
        let mut copies = common.changed(env).make(&common.env_config, 2)?;
        let agents = Agent::of(&copies)?;
        check_groups(env, common)?;
        let (obs_dtype, act_dtype) = match &copies {
            EnvCopies::Vector(copies) => (copies.obs_dtype(), copies.act_dtype()),
            EnvCopies::MultiAgent(copies) => (copies[0].obs_dtype(), copies[0].act_dtype()),
        };
        if !common.disable_env_checking {
            match &mut copies {
                EnvCopies::Vector(copies) => check_vector_env(copies.as_mut()),
                EnvCopies::MultiAgent(copies) => check_any_multi_agent_env(copies.swap_remove(0)),
            }
            .map_err(with_way_out)?;
        }
        Ok(Self { agents, obs_dtype, act_dtype })
    }
}
