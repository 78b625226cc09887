//! What went wrong, and the Python exception that it becomes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pavlov::{registry, trainer, tune};
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

    /// Something that cannot be done at this time.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self { class: "BusyError", message: message.into() }
    }

    /// Work in a process that was forked.
    pub(crate) fn forked(message: impl Into<String>) -> Self {
        Self { class: "ForkError", message: message.into() }
    }

    fn of_class(class: &'static str, message: String) -> Self {
        if class == INTERNAL { internal(message) } else { Self { class, message } }
    }

    /// Whether the caller asked for something impossible and nothing has moved.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.class, "ConfigError" | "UnknownArgumentError" | "UnsupportedError" | "ResetNeededError")
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
            // Python's own words, which programs look for that try an argument and go on without it.
            Error::UnknownSetting { env, key, hint } => {
                format!("{env} got an unexpected keyword argument '{key}'; {hint}")
            }
            other => other.to_string(),
        };
        Self::of_class(class_of_env(&error), message)
    }
}

/// The class of an error of an environment.
fn class_of_env(error: &Error) -> &'static str {
    match error {
        Error::UnknownEnv { .. } => "NotFoundError",
        Error::UnknownSetting { .. } => "UnknownArgumentError",
        Error::Config { .. } | Error::Shape { .. } | Error::InvalidAction { .. } => "ConfigError",
        Error::Unsupported { .. } => "UnsupportedError",
        Error::State { .. } => "StateError",
        Error::Panic { .. } => INTERNAL,
        Error::Env { source, .. } if matches!(**source, Error::Panic { .. }) => INTERNAL,
        _ => "EnvError",
    }
}

/// The class of an error of a run, by the first cause that says one.
fn class_of(error: &(dyn std::error::Error + 'static)) -> &'static str {
    if let Some(error) = error.downcast_ref::<Error>() {
        return class_of_env(error);
    }
    if let Some(error) = error.downcast_ref::<trainer::Error>() {
        return match error {
            trainer::Error::Config { .. } | trainer::Error::Space { .. } => "ConfigError",
            trainer::Error::MissingColumn { .. } | trainer::Error::UnknownPolicy { .. } => "NotFoundError",
            trainer::Error::State { .. } => "StateError",
            trainer::Error::NeedsTorch { .. } => "NeedsTorchError",
            trainer::Error::Panic { .. } => INTERNAL,
            trainer::Error::Env(error) => class_of_env(error),
            trainer::Error::Tune(error) => class_of(error),
            _ => "TrainingError",
        };
    }
    match error.downcast_ref::<tune::Error>() {
        Some(
            tune::Error::Config { .. }
            | tune::Error::Missing { .. }
            | tune::Error::Refusals(_)
            | tune::Error::UnknownKey { .. }
            | tune::Error::Assignment { .. },
        ) => "ConfigError",
        Some(tune::Error::Checkpoint { .. }) => "CheckpointError",
        Some(tune::Error::Io { .. }) => "FileError",
        Some(tune::Error::Trainable { source }) => class_of(&**source),
        _ => match error.source() {
            Some(cause) => class_of(cause),
            None => "TrainingError",
        },
    }
}

impl From<trainer::Error> for Fault {
    fn from(error: trainer::Error) -> Self {
        match error {
            trainer::Error::Env(error) => error.into(),
            error => Self::of_class(class_of(&error), tune::in_words(&error)),
        }
    }
}

impl From<tune::Error> for Fault {
    fn from(error: tune::Error) -> Self {
        Self::of_class(class_of(&error), tune::in_words(&error))
    }
}

impl From<registry::Error> for Fault {
    fn from(error: registry::Error) -> Self {
        Self { class: "NotFoundError", message: error.to_string() }
    }
}

/// The class of a bug.
const INTERNAL: &str = "InternalError";

fn internal(message: String) -> Fault {
    let message =
        format!("{message}; this is a bug of pavlov: please report it with the lines that led here");
    Fault { class: INTERNAL, message }
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
