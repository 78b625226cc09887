//! The errors of this crate and of the trainer: each names the thing, its value, the rule and the way out.

use std::fmt;
use {pavlov_envs as envs, pavlov_tune as tune};

/// The result of most functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate, and of the trainer that stands on it.
///
/// In a trait of the trainer, `?` turns errors of files ([`std::io::Error`]), of JSON ([`serde_json::Error`]) and any
/// `Box<dyn Error + Send + Sync>` into this error; [`Error::other`] wraps every other one.
///
/// `{:?}` prints the error [`in_words`](tune::in_words) and the name of its variant: that is what a `main` which returns
/// this error prints.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting breaks a rule.
    #[error("`{key}` is {value}, but {rule}")]
    Config {
        /// The key as the user writes it.
        key: String,
        /// The value of the setting.
        value: String,
        /// The rule and, where it is not obvious, the way out.
        rule: String,
    },
    /// An algorithm or a model cannot work with a space.
    #[error("{who} needs {needs}, but the environment's is {space}")]
    Space {
        /// Name of the algorithm or the model that refuses the space.
        who: String,
        /// The spaces that the algorithm or the model accepts.
        needs: String,
        /// The space that the environment has.
        space: String,
    },
    /// A column is not in the batch.
    #[error("no column `{wanted}` in this batch; it has {have}")]
    MissingColumn {
        /// The name that was asked for.
        wanted: String,
        /// The names of the batch's columns.
        have: String,
    },
    /// There is no policy of that id.
    #[error("no policy `{id}`; there is {have}")]
    UnknownPolicy {
        /// The id that was asked for.
        id: String,
        /// The ids of the existing policies.
        have: String,
    },
    /// Something is in the wrong state: a saved state does not fit, or an algorithm is not set up.
    #[error("{what}: {reason}")]
    State {
        /// Name of the thing that is in the wrong state.
        what: String,
        /// The reason why the state is wrong.
        reason: String,
    },
    /// A quantity of training is NaN or infinite.
    #[error("{what} is {value} at step {step}; {hint}")]
    NotFinite {
        /// Name of the quantity that is not finite.
        what: String,
        /// The value of the quantity: NaN or an infinity.
        value: f64,
        /// The number of environment steps sampled until then.
        step: u64,
        /// Advice that usually helps against such values.
        hint: String,
    },
    /// A rollout worker failed.
    #[error("worker {worker} failed: {reason}")]
    Worker {
        /// The index of the worker; 0 is the local worker.
        worker: usize,
        /// The error that the worker reported.
        reason: String,
    },
    /// A learner other than the trainer's own failed.
    #[error("learner {learner} failed: {reason}")]
    Learner {
        /// Index of the learner; 0 is the trainer's own.
        learner: usize,
        /// The error that the learner reported.
        reason: String,
    },
    /// A panic was caught at the border of a worker or of a training iteration.
    #[error("{during} panicked: {message}")]
    Panic {
        /// Name of the task that panicked.
        during: String,
        /// The panic's message.
        message: String,
    },
    /// Something was asked for that libtorch computes, which this build is without.
    #[error(
        "{what}, which libtorch computes, and this build is without it. {instead}; or take the build with libtorch: in Rust the default feature `torch`"
    )]
    NeedsTorch {
        /// What was asked for, as the user writes it.
        what: String,
        /// The way out without libtorch.
        instead: String,
    },
    /// libtorch refused an operation on files or modules.
    #[error("libtorch: {0}")]
    Torch(String),
    /// An environment reported an error.
    #[error(transparent)]
    Env(#[from] envs::Error),
    /// The crate `pavlov-tune` reported an error, about configuration, checkpoints or logs.
    #[error(transparent)]
    Tune(#[from] tune::Error),
    /// Any other error, shown unchanged: that of a callback, a policy or an algorithm of a user's own.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = tune::in_words(self);
        match self {
            Self::Env(inner) => write!(f, "{words} [Env({})]", inner.variant()),
            Self::Tune(inner) => write!(f, "{words} [Tune({})]", inner.variant()),
            _ => write!(f, "{words} [{}]", self.variant()),
        }
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
    /// Returns the name of the variant, such as `Config`, which `{:?}` shows behind the message.
    pub fn variant(&self) -> &'static str {
        names!(self; Config Space MissingColumn UnknownPolicy State NotFinite Worker Learner Panic NeedsTorch Torch Env Tune
            Other)
    }

    /// Wraps the error of another crate, or a message, which is shown unchanged. An error of this type stays what it is.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        error.into().downcast::<Self>().map_or_else(Self::Other, |own| *own)
    }

    /// Makes an [`Error::Config`] for a setting that breaks `rule`.
    pub fn config(key: impl Into<String>, value: impl std::fmt::Display, rule: impl Into<String>) -> Self {
        Self::Config { key: key.into(), value: value.to_string(), rule: rule.into() }
    }

    /// Puts `part`, a part of a saved run, before the name of the thing in an [`Error::State`]; other errors are unchanged.
    pub fn within(self, part: &str) -> Self {
        match self {
            Self::State { what, reason } => Self::State { what: format!("{part}: {what}"), reason },
            other => other,
        }
    }

    /// Makes an [`Error::State`] for something that is in the wrong state.
    pub fn state(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::State { what: what.into(), reason: reason.into() }
    }
}

impl From<pavlov_processes::Error> for Error {
    fn from(error: pavlov_processes::Error) -> Self {
        Error::Tune(error.into())
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

impl From<Error> for tune::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Tune(inner) => inner,
            Error::Other(source) => tune::Error::other(source),
            other => tune::Error::other(other),
        }
    }
}

/// Returns libtorch's message without the C++ stack frames that libtorch appends.
pub(super) fn without_backtrace(message: &str) -> &str {
    let end =
        ["Exception raised from", "C++ CapturedTraceback"].iter().filter_map(|mark| message.find(mark)).min();
    message[..end.unwrap_or(message.len())].trim_end().trim_end_matches("\\n")
}

/// Runs `f` and turns a panic into [`Error::Panic`].
pub fn catch<T>(during: impl FnOnce() -> String, f: impl FnOnce() -> Result<T>) -> Result<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => {
            // How a computation ends that cannot return an error; see `loss::widths`.
            let payload = match payload.downcast::<Error>() {
                Ok(error) => return Err(*error),
                Err(payload) => payload,
            };
            let message = payload
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            let message = without_backtrace(&message).to_owned();
            Err(Error::Panic { during: during(), message })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_prints_a_sentence_however_deep_the_error_is_wrapped() {
        let error = envs::Error::Contract { check: "obs_in_space", message: "step 3 left it".into() };
        let error = Error::from(tune::Error::from(Error::from(error)));
        assert_eq!(
            format!("{error:?}"),
            "contract `obs_in_space` is broken: step 3 left it [Tune(Trainable)]"
        );
    }

    #[cfg(feature = "torch")]
    #[test]
    fn an_error_of_libtorch_comes_without_frames_of_c_plus_plus() {
        use tch::{Kind, Tensor};
        let wrong = || Tensor::zeros([2, 3], (Kind::Float, tch::Device::Cpu)).f_view([7]);
        assert!(wrong().unwrap_err().to_string().contains("Exception raised from"));
        let message = Error::from(wrong().unwrap_err()).to_string();
        assert!(message.contains("invalid for input of size 6") && !message.contains("frame #"), "{message}");
        let panic = catch(|| "it".into(), || Ok(wrong().unwrap())).unwrap_err().to_string();
        assert!(panic.starts_with("it panicked: ") && !panic.contains("frame #"), "{panic}");
    }
}
