//! Environments that other programs play: a simulator, a game, a robot or a web site asks the trainer for its actions, over
//! HTTP, and the trainer learns from what it reports. `docs/external.md` describes the messages.
//!
//! ```no_run
//! use pavlov_envs::Space;
//! use pavlov_serve::external::PolicyServerInput;
//! use pavlov_trainer::{Result, Trainer, TrainerExt};
//!
//! fn train(settings: impl Trainer) -> Result<()> {
//!     let input = PolicyServerInput::new("127.0.0.1:9900", Space::real(&[4]), Space::discrete(2));
//!     settings.build(input)?.train()?;
//!     Ok(())
//! }
//! ```

mod client;
mod server;
mod site;
mod wire;

pub use client::{ClientError, Ended, PolicyClient};

use pavlov_envs::external::Answer;
use pavlov_envs::{EnvCreator, EnvSpec, Error, ExternalEnv, IntoEnvCreator, Result, Space};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The id of the environment that other programs play.
pub const ID: &str = "PolicyServerInput";

/// Where programs that play an environment connect to, and what they see and do (Ray's name).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyServerInput {
    /// The address to listen on, such as `127.0.0.1:9900`.
    #[serde(default = "default_address")]
    pub address: String,
    /// File with the token that programs must send; needed unless the address is one of loopback.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// The space of observations; in settings also its text, such as `Box(-1.0, 1.0, (4,), float32)`.
    #[serde(deserialize_with = "space")]
    pub observation_space: Space,
    /// The space of actions; in settings also its text, such as `Discrete(2)`.
    #[serde(deserialize_with = "space")]
    pub action_space: Space,
    /// Whether messages may come with masks of legal actions, for `mask_actions`.
    #[serde(default)]
    pub action_masks: bool,
    /// Number of seconds after which an episode that is silent is cut.
    #[serde(default = "default_timeout")]
    pub episode_timeout_s: f64,
}

fn default_address() -> String {
    "127.0.0.1:9900".into()
}

fn default_timeout() -> f64 {
    60.0
}

/// Reads a space from its text, or from its JSON form.
fn space<'de, D: Deserializer<'de>>(source: D) -> std::result::Result<Space, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Json(Space),
    }
    match Form::deserialize(source)? {
        Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        Form::Json(space) => Ok(space),
    }
}

impl PolicyServerInput {
    /// Describes an environment with these spaces, whose programs connect to `address`.
    pub fn new(address: impl Into<String>, observation_space: Space, action_space: Space) -> Self {
        Self {
            address: address.into(),
            token_file: None,
            observation_space,
            action_space,
            action_masks: false,
            episode_timeout_s: default_timeout(),
        }
    }

    /// The environment, whose server begins to listen when a run is made.
    fn env(self) -> Result<ExternalEnv> {
        let refuse = |message: String| Error::Config { env: ID.into(), message };
        let timeout = Duration::try_from_secs_f64(self.episode_timeout_s)
            .ok()
            .filter(|timeout| !timeout.is_zero())
            .ok_or_else(|| {
                let found = self.episode_timeout_s;
                refuse(format!("`episode_timeout_s` is {found}, but it must be a positive number of seconds"))
            })?;
        let (observation_space, action_space) = (self.observation_space.clone(), self.action_space.clone());
        let masked = self.action_masks;
        let open = move || server::open(&self);
        Ok(ExternalEnv::new(observation_space, action_space, timeout, open).with_masks(masked))
    }
}

impl IntoEnvCreator for PolicyServerInput {
    fn into_env_creator(self) -> EnvCreator {
        EnvCreator::external(ID, move |config| {
            if let Some(key) = config.keys().next() {
                let message =
                    format!("`env_config` has `{key}`, but the program gave all of its settings already");
                return Err(Error::Config { env: ID.into(), message });
            }
            self.clone().env()
        })
    }
}

/// Registers the environment `PolicyServerInput` for the whole process; its `env_config` has the fields of
/// [`PolicyServerInput`]. The command and the Python package do so themselves.
pub fn register() {
    let spec = EnvSpec {
        id: ID.into(),
        summary: "episodes that other programs play, over HTTP".into(),
        max_episode_steps: None,
        reward_threshold: None,
    };
    let creator = EnvCreator::external(ID, |config| {
        let config = serde_json::Value::Object(config.clone().into_iter().collect());
        let input: PolicyServerInput = serde_json::from_value(config).map_err(|error| Error::Config {
            env: ID.into(),
            message: format!("{error}; it takes `address`, `observation_space`, `action_space`, `token_file`, `action_masks` and `episode_timeout_s`"),
        })?;
        input.env()
    });
    // Whoever was first registered the same.
    drop(pavlov_envs::register(spec, creator));
}
