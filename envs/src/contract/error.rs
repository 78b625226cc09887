//! Errors of environments, vectors of environments, and the registry.

use std::{error::Error as _, fmt};

use crate::{Element, Space};

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an environment, of a vector of environments, or of the registry.
///
/// In an environment, `?` turns errors of files ([`std::io::Error`]), of JSON ([`serde_json::Error`]) and any
/// `Box<dyn Error + Send + Sync>` into this error; [`Error::other`] wraps every other one, and messages.
///
/// `{:?}` prints the message of `{}`, the causes that it does not contain, and the name of the variant, so that a `main` that
/// returns this error prints a readable sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No environment is registered under this id.
    #[error(
        "no environment {id:?}{}; `pavlov list envs` shows all; those in Python begin with `py:`, `ma:` (Gymnasium) \
         or `pz:` (PettingZoo)",
        or_nearest(nearest.as_deref())
    )]
    UnknownEnv {
        /// The unknown id.
        id: String,
        /// The registered id with the fewest edits, if one is near.
        nearest: Option<String>,
    },
    /// Another environment is already registered under this id.
    #[error(
        "an environment {id:?} is registered already; choose another id, for instance with a higher -v number"
    )]
    AlreadyRegistered {
        /// The id that is already registered.
        id: String,
    },
    /// The `env_config` does not fit the environment.
    #[error("env_config of {env}: {message}")]
    Config {
        /// Id or name of the environment.
        env: String,
        /// The key, its value, the rule and a hint.
        message: String,
    },
    /// The `env_config` has a setting that the environment does not have.
    #[error("env_config of {env}: no setting `{key}`; {hint}")]
    UnknownSetting {
        /// Id or name of the environment.
        env: String,
        /// The unknown key.
        key: String,
        /// The nearest key, or all that there are.
        hint: String,
    },
    /// An action lies outside the action space.
    #[error("action {action} is not in {space} of {env}")]
    InvalidAction {
        /// Name of the environment.
        env: String,
        /// The action as text.
        action: String,
        /// The action space.
        space: Box<Space>,
    },
    /// An environment breaks a rule of its contract.
    #[error("contract `{check}` is broken: {message}")]
    Contract {
        /// Name of the broken rule, as listed at [`check_env`](crate::check_env).
        check: &'static str,
        /// Copy and step of the violation, the expected value and the value found.
        message: String,
    },
    /// One copy of an environment failed; `seed` and `step` reproduce the failure.
    #[error("environment {env} failed {} of the episode with {}: {source}", at_step(*step), seed_text(*seed))]
    Env {
        /// Index of the copy in its vector.
        env: usize,
        /// Seed of the running episode; `None` if it was reset without a seed.
        seed: Option<u64>,
        /// Step of the episode, from 1; 0 is the reset.
        step: usize,
        /// The environment's error.
        source: Box<Error>,
    },
    /// User code panicked.
    #[error("panic: {message}")]
    Panic {
        /// Message of the panic.
        message: String,
    },
    /// A Python environment or the process it runs in failed; see [`PyVec`](crate::python::PyVec).
    #[error("{env}: {message}")]
    Python {
        /// Id of the environment.
        env: String,
        /// What failed; for a worker that failed, its number, the request and the Python traceback.
        message: String,
    },
    /// A buffer or a space has the wrong size, alignment or form.
    #[error("{what} is {found}, but it must be {expected}")]
    Shape {
        /// Name of the buffer or field.
        what: &'static str,
        /// The value that was given.
        found: String,
        /// The rule that the value breaks.
        expected: String,
    },
    /// The environment does not support an operation.
    #[error("{env} has no {what}; {way_out}")]
    Unsupported {
        /// Name of the environment.
        env: String,
        /// The unsupported operation.
        what: &'static str,
        /// A hint what to do instead.
        way_out: &'static str,
    },
    /// A saved state cannot be made or loaded.
    #[error("environment state: {message}")]
    State {
        /// The mismatch and a hint.
        message: String,
    },
    /// The running episodes of a saved state cannot be played again, so only new ones can begin: the environment is not
    /// repeatable under a seed, or it has changed since.
    #[error(
        "{env}: the episodes of the saved state cannot be played again: {message}; the environment is not a function of seed and actions, or it changed"
    )]
    Replay {
        /// Id of the environment.
        env: String,
        /// What was different this time.
        message: String,
    },
    /// A user-defined error.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let words = error.to_string();
            if !text.contains(&words) {
                text = format!("{text}: {words}");
            }
            cause = error.source();
        }
        write!(f, "{text} [{}]", self.variant())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::other(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::other(error)
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::other(error)
    }
}

macro_rules! names {
    ($error:expr; $($name:ident)*) => {
        match $error {
            $(Error::$name { .. } => stringify!($name),)*
        }
    };
}

impl Error {
    /// Returns the name of the variant, such as `Contract`, which `{:?}` shows behind the message.
    pub fn variant(&self) -> &'static str {
        names!(self; UnknownEnv AlreadyRegistered Config UnknownSetting InvalidAction Contract Env Panic Python Shape
            Unsupported State Replay Other)
    }

    /// Wraps a user-defined error or message: `Error::other("the simulator is gone")`. An error of this type stays what it
    /// is.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        error.into().downcast::<Self>().map_or_else(Self::Other, |own| *own)
    }

    pub(crate) fn shape(
        what: &'static str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Self {
        Self::Shape { what, found: found.to_string(), expected: expected.to_string() }
    }

    pub(crate) fn no_copy(copy: usize, num_envs: usize) -> Self {
        Self::shape("`copy`", copy, format_args!("below {num_envs}, the number of copies"))
    }

    pub(crate) fn invalid_action<T: Element>(env: &str, action: &[T], space: &Space) -> Self {
        let action = match action {
            [one] => format!("{one:?}"),
            many => format!("{many:?}"),
        };
        Self::InvalidAction { env: env.into(), action, space: Box::new(space.clone()) }
    }

    pub(crate) fn unsupported(env: &str, what: &'static str, way_out: &'static str) -> Self {
        Self::Unsupported { env: env.into(), what, way_out }
    }

    /// Error of `set_task` for an environment with only one task.
    pub(crate) fn one_task(env: &str) -> Self {
        Self::unsupported(env, "tasks to choose from", "implement `set_task` for it")
    }

    pub(crate) fn state(message: impl Into<String>) -> Self {
        Self::State { message: message.into() }
    }

    /// Converts the payload of a caught panic into an error with its message.
    pub(crate) fn panic(payload: &(dyn std::any::Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .map(|s| s.to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a payload that is not text".into());
        Self::Panic { message }
    }

    /// Whether the running episodes of a saved state cannot be played again, so that only new ones can begin.
    pub fn is_replay(&self) -> bool {
        match self {
            Self::Replay { .. } => true,
            Self::Env { source, .. } => source.is_replay(),
            _ => false,
        }
    }

    /// Adds `first` to the copy index of an [`Error::Env`], for a vector that is part of a longer one.
    pub(crate) fn shift_env(self, first: usize) -> Self {
        match self {
            Self::Env { env, seed, step, source } => Self::Env { env: env + first, seed, step, source },
            other => other,
        }
    }
}

fn or_nearest(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; nearest: {name}")).unwrap_or_default()
}

fn at_step(step: usize) -> String {
    if step == 0 { "in the reset".into() } else { format!("at step {step}") }
}

fn seed_text(seed: Option<u64>) -> String {
    seed.map_or_else(|| "no seed".into(), |seed| format!("seed {seed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_prints_a_sentence() {
        let contract = Error::Contract { check: "obs_in_space", message: "step 3 left it".into() };
        assert_eq!(format!("{contract:?}"), "contract `obs_in_space` is broken: step 3 left it [Contract]");
        let inner = Error::other(std::io::Error::other("the simulator is gone"));
        let failed = Error::Env { env: 1, seed: Some(3), step: 2, source: Box::new(inner) };
        let text = "environment 1 failed at step 2 of the episode with seed 3: the simulator is gone [Env]";
        assert_eq!(format!("{failed:?}"), text);
    }
}
