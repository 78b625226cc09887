//! The file of a checkpoint that describes the run: algorithm, settings, spaces.

use crate::agents::Agent;
use crate::run::saved_code::SavedCode;
use pavlov_envs::DType;
use pavlov_learn::base::{Error, Result, State, StreamState};
use pavlov_tune::Config;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file, without its ending.
const FILE: &str = "settings";

/// The description of a run in its checkpoint, without everything that was learned and counted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CheckpointSettings {
    pub(crate) algorithm: String,
    pub(crate) env: String,
    /// Observation space of the first agent, as text.
    pub(crate) observation_space: String,
    /// Action space of the first agent, as text.
    pub(crate) action_space: String,
    /// The agents with their spaces; `None` in checkpoints of the first format, which did not store them.
    pub(crate) spaces: Option<Vec<Agent>>,
    /// Scalar types of observations and actions; `None` in checkpoints of the first format, which did not store them.
    pub(crate) dtypes: Option<(DType, DType)>,
    /// The name and the policy id of each agent; empty if there is only one agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) agents: Vec<(String, String)>,
    /// The code that the policies need.
    #[serde(default)]
    pub(crate) code: SavedCode,
    /// The complete settings of the algorithm.
    pub(crate) config: Config,
    pub(crate) inference_rng: StreamState,
    /// Whether policies were added or removed during training: a restore then takes the `multiagent` settings of the
    /// checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) policies_changed: bool,
}

impl CheckpointSettings {
    /// Writes the file into the folder of a checkpoint.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let values = serde_json::to_value(self).and_then(serde_json::from_value);
        let values = values.map_err(|error| Error::state(FILE, error.to_string()))?;
        State::from_parts(values, Vec::new()).write(dir, FILE)
    }

    /// Reads the file in the folder of a checkpoint.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or lacks a field.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let state = State::read(dir, FILE)?;
        Self::deserialize(state.parts().0).map_err(|error| Error::state(FILE, error.to_string()))
    }
}
