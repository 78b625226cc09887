//! An agent of an environment: its name and its spaces.

use crate::base::{Error, Result, Spaces};
use pavlov_envs::EnvCopies;
use serde::{Deserialize, Serialize};

/// An agent of an environment. An environment with a single agent has one named `agent0`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// The agent's name in the environment.
    pub name: String,
    /// What the agent observes and does.
    pub spaces: Spaces,
}

impl Agent {
    /// The agent of an environment that has only one.
    pub fn only(spaces: Spaces) -> Vec<Self> {
        vec![Self { name: "agent0".into(), spaces }]
    }
}

impl Agent {
    /// The agents of an environment.
    ///
    /// # Errors
    /// Returns [`Error::State`] if it is an environment of several agents without a copy to ask, or without agents.
    pub fn of(copies: &EnvCopies) -> Result<Vec<Self>> {
        match copies {
            EnvCopies::Vector(copies) => Ok(Self::only(Spaces::of(copies.as_ref()))),
            EnvCopies::MultiAgent(copies) => {
                let Some(env) = copies.first() else {
                    return Err(Error::state("the environment", "it has no copies; at least 1 is needed"));
                };
                let spaces = |agent| Spaces {
                    observation_space: env.observation_space(agent),
                    action_space: env.action_space(agent),
                };
                let agents = env.agents();
                if agents.is_empty() {
                    let reason = "it has no agents; `agents` must name at least 1";
                    return Err(Error::state("the environment", reason));
                }
                let agents = agents.into_iter().enumerate();
                Ok(agents.map(|(agent, name)| Self { name, spaces: spaces(agent) }).collect())
            }
        }
    }
}
