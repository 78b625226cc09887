//! The spec of an environment in Gymnasium's registry.

use serde_json::json;

use super::super::{PREFIX, config::PyConfig, talk::first_message, worker::Worker};
use crate::{EnvConfig, EnvSpec, Error, Result};

/// Asks a Python process for the spec of `id` in Gymnasium's registry.
pub(in crate::python) fn spec(id: &str, env_config: &EnvConfig) -> Result<EnvSpec> {
    let name = format!("{PREFIX}{id}");
    let config = PyConfig::decode(&name, env_config, 1)?;
    let ask = || {
        let mut worker =
            Worker::start(0, &config.interpreter(), first_message(id, &config), config.start_timeout())?;
        worker.request(&json!({"do": "spec"}))?;
        worker.line("spec")
    };
    let answer = ask().map_err(|message| Error::Python { env: name.clone(), message })?;
    Ok(EnvSpec {
        id: name,
        summary: "a Gymnasium environment in Python".into(),
        max_episode_steps: answer["max_episode_steps"].as_u64().map(|steps| steps as usize),
        reward_threshold: answer["reward_threshold"].as_f64(),
    })
}
