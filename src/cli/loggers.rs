//! `--logger`: results in the files of other programs, beside pavlov's own.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::exit::usage;
use crate::tune::loggers::{Logger, MlflowLogger, WandbLogger};
use crate::tune::{LoggerChoice, TrainableFactory};

/// A program whose files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum LoggerName {
    /// MLflow's file store: $MLFLOW_TRACKING_URI if it is a path or a file: address, or else mlruns beside the run directory, for
    /// the trials of a sweep in its directory
    Mlflow,
    /// An offline run of Weights & Biases in wandb/ of the run directory, for `wandb sync`; the project is $WANDB_PROJECT, or else
    /// pavlov
    Wandb,
}

impl LoggerName {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
    }
}

#[derive(Args, Clone, Debug)]
pub(super) struct LoggerArgs {
    /// Also write the results for this program, as the run goes on; a resumed run goes on under the same id there
    #[arg(long = "logger", value_name = "NAME", value_delimiter = ',')]
    pub(super) loggers: Vec<LoggerName>,
}

/// Adds the named loggers to those that a sweep file lists, and each of them to the trials of `trainable`.
///
/// # Errors
/// Fails if the sweep file lists an unknown name, or the environment names a place that is no directory.
pub(super) fn of_trials(
    mut trainable: TrainableFactory,
    names: &[LoggerName],
    listed: &mut Vec<String>,
) -> anyhow::Result<TrainableFactory> {
    listed.extend(names.iter().map(|name| name.name()));
    let mut known = Vec::new();
    for name in listed.iter() {
        let name = LoggerName::from_str(name, false).map_err(|_| {
            let all: Vec<String> = LoggerName::value_variants().iter().map(|name| name.name()).collect();
            usage(format!("`loggers` has \"{name}\", but it takes {}", all.join(" and ")))
        })?;
        if known.contains(&name) {
            continue;
        }
        known.push(name);
        trainable = match name {
            LoggerName::Mlflow => {
                let store = mlflow_store(std::env::var("MLFLOW_TRACKING_URI").ok())?;
                trainable.with_logger(move || MlflowLogger::of_sweep(store.clone()))
            }
            LoggerName::Wandb => trainable.with_logger(|| WandbLogger::new(project()).grouped()),
        };
    }
    *listed = known.into_iter().map(LoggerName::name).collect();
    Ok(trainable)
}

/// The loggers of a run: the standard ones, then those that are named.
///
/// # Errors
/// Fails if the environment names a place that is no directory.
pub(super) fn choice(names: &[LoggerName], experiment: &str) -> anyhow::Result<LoggerChoice> {
    let mut own: Vec<Box<dyn Logger>> = Vec::new();
    let mut known: Vec<LoggerName> = Vec::new();
    for name in names {
        if known.contains(name) {
            continue;
        }
        known.push(*name);
        own.push(match name {
            LoggerName::Mlflow => Box::new(match mlflow_store(std::env::var("MLFLOW_TRACKING_URI").ok())? {
                Some(store) => MlflowLogger::new(store, experiment),
                None => MlflowLogger::beside_run(experiment),
            }),
            LoggerName::Wandb => Box::new(WandbLogger::new(project())),
        });
    }
    Ok(if own.is_empty() { LoggerChoice::Default } else { LoggerChoice::DefaultAnd(own) })
}

/// The project of Weights & Biases.
fn project() -> String {
    let project = std::env::var("WANDB_PROJECT").ok().filter(|project| !project.is_empty());
    project.unwrap_or_else(|| "pavlov".into())
}

/// The directory that MLflow's own variable names; `None` if it names none.
fn mlflow_store(uri: Option<String>) -> anyhow::Result<Option<PathBuf>> {
    let Some(uri) = uri.filter(|uri| !uri.is_empty()) else { return Ok(None) };
    let path = uri.strip_prefix("file://").or_else(|| uri.strip_prefix("file:")).unwrap_or(&uri);
    if path.contains("://") || path == "databricks" || path.is_empty() {
        return Err(usage(format!(
            "MLFLOW_TRACKING_URI is {uri}, but `--logger mlflow` writes files: set it to a directory, or unset it"
        )));
    }
    Ok(Some(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_mlflow_is_a_directory() {
        let of = |uri: &str| mlflow_store(Some(uri.into())).map_err(|error| error.to_string());
        assert_eq!(of("file:///tmp/mlruns"), Ok(Some("/tmp/mlruns".into())));
        assert_eq!(of("file:mlruns"), Ok(Some("mlruns".into())));
        assert_eq!(of("mlruns"), Ok(Some("mlruns".into())));
        assert_eq!(of(""), Ok(None));
        for other in ["http://localhost:5000", "sqlite:///a.db", "databricks"] {
            assert!(of(other).unwrap_err().contains("set it to a directory"), "{other}");
        }
    }
}
