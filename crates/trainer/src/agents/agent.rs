//! An agent of an environment: its name and its spaces.

use pavlov_envs::EnvCopies;
use pavlov_learn::base::Spaces;
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

    /// All agents of an environment.
    pub fn of(copies: &EnvCopies) -> Vec<Self> {
        match copies {
            EnvCopies::Vector(copies) => Self::only(Spaces::of(copies.as_ref())),
            EnvCopies::External(env) => Self::only(Spaces {
                observation_space: env.observation_space().clone(),
                action_space: env.action_space().clone(),
            }),
            EnvCopies::MultiAgent(copies) => {
                let spaces = |agent| Spaces {
                    observation_space: copies.observation_space(agent),
                    action_space: copies.action_space(agent),
                };
                let agents = copies.agents().iter().cloned().enumerate();
                agents.map(|(agent, name)| Self { name, spaces: spaces(agent) }).collect()
            }
        }
    }
}
