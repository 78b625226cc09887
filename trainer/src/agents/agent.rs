//! An agent of an environment: its name and its spaces.

use crate::base::{Error, Result, Spaces};
use pavlov_envs::EnvCopies;
use serde::{Deserialize, Serialize};

/// One agent of an environment. In an environment with a single agent it is named `agent0`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// The agent's name in the environment.
    pub name: String,
    /// The agent's observation space and action space.
    pub spaces: Spaces,
}

impl Agent {
    /// Returns the agents of a single-agent environment: one agent, `agent0`, with these spaces.
    pub fn only(spaces: Spaces) -> Vec<Self> {
        vec![Self { name: "agent0".into(), spaces }]
    }
}

impl Agent {
    /// All agents of an environment.
    ///
    /// # Errors
    /// Returns [`Error::State`] for a multi-agent environment without copies or without agents.
    pub fn of(copies: &EnvCopies) -> Result<Vec<Self>> {
        match copies {
            EnvCopies::Vector(copies) => Ok(Self::only(Spaces::of(copies.as_ref()))),
            EnvCopies::External(env) => Ok(Self::only(Spaces {
                observation_space: env.observation_space().clone(),
                action_space: env.action_space().clone(),
            })),
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
