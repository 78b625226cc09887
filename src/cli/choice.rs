//! What a command trains: the algorithm, the preset and the environment, looked up by name. `train`, `tune` and `trainable`
//! read these names from different places, and look them up here.

use super::exit::usage;
use crate::envs::{self, EnvCreator};
use crate::presets::{self, Preset};
use crate::registry::{self, AlgorithmEntry};

/// An algorithm, and the preset and the environment that go with it.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) entry: AlgorithmEntry,
    pub(super) preset: Option<Preset>,
    /// Id of the environment; `None` if neither the user nor the preset names one.
    pub(super) env: Option<String>,
}

impl Choice {
    /// Looks up an algorithm, and a preset if one is named. Without an `env` the preset's is taken.
    pub(super) fn of(algorithm: &str, preset: Option<&str>, env: Option<String>) -> anyhow::Result<Self> {
        let choice = Choice { entry: registry::algorithm(algorithm)?, preset: None, env };
        match preset {
            Some(name) => choice.with(presets::preset(name)?),
            None => Ok(choice),
        }
    }

    /// Adds a preset, which must be for this algorithm.
    pub(super) fn with(mut self, preset: Preset) -> anyhow::Result<Self> {
        self.check(&format!("preset {}", preset.name), &preset.algorithm)?;
        self.env = self.env.or_else(|| preset.env.clone());
        self.preset = Some(preset);
        Ok(self)
    }

    /// Checks that settings from `origin`, which name an algorithm, are for this one.
    pub(super) fn check(&self, origin: &str, algorithm: &str) -> anyhow::Result<()> {
        let own = self.entry.name();
        if algorithm.eq_ignore_ascii_case(own) {
            return Ok(());
        }
        Err(usage(format!("{origin} is for {algorithm}, not for {own}; choose one of the two")))
    }
}

/// Returns the environment with this id, which must be registered. A `py:` id is accepted: the Python interpreter looks it up
/// when the environment is made.
pub(super) fn environment(env: &str) -> Result<EnvCreator, envs::Error> {
    if !env.starts_with("py:") {
        match (envs::spec(env), envs::multi_agent_spec(env)) {
            (Ok(_), _) | (_, Ok(_)) => {}
            // The error with the nearest id is the more helpful one.
            (Err(envs::Error::UnknownEnv { nearest: None, .. }), Err(error)) | (Err(error), _) => {
                return Err(error);
            }
        }
    }
    Ok(EnvCreator::from(env))
}
