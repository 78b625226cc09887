//! The agents of a PettingZoo environment, and their spaces.

use serde_json::Value;

use super::super::talk::space;
use crate::{DType, Error, Result, Space};

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) observation_space: Space,
    pub(super) action_space: Space,
}

impl Agent {
    /// Number of actions that a mask covers; 0 unless the action space is Discrete.
    pub(super) fn num_actions(&self) -> usize {
        if matches!(self.action_space, Space::Discrete { .. }) { self.action_space.flat_width() } else { 0 }
    }
}

pub(super) fn agents(env: &str, about: &Value) -> Result<Vec<Agent>> {
    let names: Vec<String> = serde_json::from_value(about["agents"].clone())
        .map_err(|error| Error::Python { env: env.into(), message: format!("its agents: {error}") })?;
    let agent = |(i, name): (usize, String)| {
        let part = |which: &str| space(env, &format!("{which} (of {name})"), &about[which]["tuple"][i]);
        let observation_space = part("observation")?;
        let action_space = part("action")?;
        Ok(Agent { name, observation_space, action_space })
    };
    names.into_iter().enumerate().map(agent).collect()
}

/// Scalar type of the observations or actions of all agents; an error if the agents differ.
pub(super) fn common_dtype(
    env: &str,
    which: &str,
    agents: &[Agent],
    space: impl Fn(&Agent) -> &Space,
) -> Result<DType> {
    let Some(first) = agents.first() else {
        return Err(Error::Python { env: env.into(), message: "it has no agents".into() });
    };
    let dtype = space(first).dtype();
    match agents.iter().find(|agent| space(agent).dtype() != dtype) {
        None => Ok(dtype),
        Some(other) => Err(Error::Python {
            env: env.into(),
            message: format!(
                "{which} of {} are {dtype}, but those of {} are {}; all agents' rows need one scalar type: cast them by a wrapper",
                first.name,
                other.name,
                space(other).dtype()
            ),
        }),
    }
}
