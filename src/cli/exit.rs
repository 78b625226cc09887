//! Exit codes for errors: 1 if the work failed, 2 if the user's input is bad.

use std::error::Error as StdError;
use std::process::ExitCode;

use super::output::{say, visible};
use crate::{envs, registry, trainer, tune};

/// Error of bad usage or input; the message says what is wrong and how to correct it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(pub(super) String);

/// Makes an error that ends the command with exit code 2.
pub(super) fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// Prints the error, if there is one, and returns the exit code.
pub(super) fn code(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    // Names in it may come from a run or a model of somebody else.
    say(&format!("error: {}", visible(&tune::in_words(error.as_ref()))));
    if error.chain().any(is_usage) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

fn is_usage(error: &(dyn StdError + 'static)) -> bool {
    if error.is::<Usage>() || error.is::<registry::Error>() {
        return true;
    }
    if let Some(error) = error.downcast_ref::<tune::Error>() {
        return match error {
            tune::Error::Config { .. }
            | tune::Error::Missing { .. }
            | tune::Error::Refusals(_)
            | tune::Error::UnknownKey { .. }
            | tune::Error::Assignment { .. }
            | tune::Error::Checkpoint { .. }
            | tune::Error::Experiment { .. }
            | tune::Error::MissingMetric { .. }
            | tune::Error::Storage { transient: false, .. } => true,
            // A transparent wrapper reports the cause of its inner error as its own, so the chain skips the inner error.
            tune::Error::Trainable { source } => is_usage(source.as_ref()),
            _ => false,
        };
    }
    if let Some(error) = error.downcast_ref::<trainer::Error>() {
        return match error {
            trainer::Error::Config { .. } | trainer::Error::Space { .. } => true,
            trainer::Error::Env(inner) => is_usage(inner),
            trainer::Error::Tune(inner) => is_usage(inner),
            _ => false,
        };
    }
    matches!(
        error.downcast_ref(),
        Some(
            envs::Error::UnknownEnv { .. } | envs::Error::Config { .. } | envs::Error::UnknownSetting { .. }
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn what_the_user_gave_is_bad_input_however_deep_it_is_wrapped() {
        let unknown = envs::spec("CartPol-v1").unwrap_err();
        let wrapped = tune::Error::from(trainer::Error::from(unknown));
        assert!(is_usage(&wrapped));
        let failed = tune::Error::from(trainer::Error::Worker { worker: 1, reason: "gone".into() });
        assert!(!is_usage(&failed));
    }

    #[test]
    fn a_cause_that_the_message_tells_already_is_not_repeated() {
        let io = std::io::Error::other("no space left");
        let error = tune::Error::io("write", "run/result.json".as_ref())(io);
        let error = Err::<(), _>(error).context("training stopped").unwrap_err();
        assert_eq!(
            tune::in_words(error.as_ref()),
            "training stopped: cannot write run/result.json: no space left"
        );
    }
}
