//! What went wrong, and the Python exception that it becomes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pavlov_envs::Error;
use pyo3::prelude::*;

pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

/// The name of a class in `pavlov_rl.errors`, and the message.
#[derive(Debug)]
pub(crate) struct Fault {
    class: &'static str,
    message: String,
}

impl Fault {
    /// A setting, an action or an array that does not fit.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self { class: "ConfigError", message: message.into() }
    }

    /// A step for which a reset must come first.
    pub(crate) fn reset_needed(message: impl Into<String>) -> Self {
        Self { class: "ResetNeededError", message: message.into() }
    }

    /// A saved state that cannot be made or does not fit.
    pub(crate) fn state(message: impl Into<String>) -> Self {
        Self { class: "StateError", message: message.into() }
    }

    /// Whether the caller asked for something impossible and nothing has moved.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.class, "ConfigError" | "UnsupportedError" | "ResetNeededError")
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let message = match &error {
            // The library's own sentence tells of the command and of environments in Python.
            Error::UnknownEnv { id, nearest } => {
                let nearest = nearest.as_ref().map(|id| format!("; nearest: {id:?}")).unwrap_or_default();
                format!(
                    "no native environment {id:?}{nearest}; `pavlov_rl.ids()` and `pavlov_rl.multi_agent_ids()` list all"
                )
            }
            other => other.to_string(),
        };
        let class = match error {
            Error::UnknownEnv { .. } => "NotFoundError",
            Error::Config { .. } | Error::Shape { .. } | Error::InvalidAction { .. } => "ConfigError",
            Error::Unsupported { .. } => "UnsupportedError",
            Error::State { .. } => "StateError",
            Error::Panic { .. } => return internal(message),
            Error::Env { ref source, .. } if matches!(**source, Error::Panic { .. }) => {
                return internal(message);
            }
            _ => "EnvError",
        };
        Self { class, message }
    }
}

fn internal(message: String) -> Fault {
    let message =
        format!("{message}; this is a bug of pavlov: please report it with the lines that led here");
    Fault { class: "InternalError", message }
}

/// Runs `work`; a panic in it becomes a fault.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Err(internal(format!("panic: {}", text.unwrap_or_else(|| "without a message".into()))))
    })
}

/// The Python exception of a fault.
pub(crate) fn raised(py: Python<'_>, fault: impl Into<Fault>) -> PyErr {
    let Fault { class, message } = fault.into();
    let made = py
        .import("pavlov_rl.errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((message,)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
