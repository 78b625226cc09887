//! `--logger`: results in the files of other programs, beside pavlov's own.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::exit::usage;
use crate::tune::loggers::{Logger, MlflowFolderLogger, MlflowLogger, WandbLogger};
use crate::tune::{LoggerChoice, TrainableFactory};

/// A program whose files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LoggerName {
    /// MLflow 3.13 and later: the SQLite file that $MLFLOW_TRACKING_URI names as sqlite:///FILE, or else mlflow.db beside the run
    /// directory, for the trials of a sweep in its directory
    Mlflow,
    /// MLflow before 3.13: the folder that $MLFLOW_TRACKING_URI names as a path or a file: address, or else mlruns in the same place
    MlflowFolder,
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

/// Adds the named loggers to those that a sweep file lists, and each of them to the trials of `trainable`. `experiment` is the
/// directory of a sweep that is resumed.
///
/// # Errors
/// Fails if the sweep file lists an unknown name, or the environment names another kind of place than a logger writes.
pub(super) fn of_trials(
    mut trainable: TrainableFactory,
    names: &[LoggerName],
    listed: &mut Vec<String>,
    experiment: Option<&Path>,
) -> anyhow::Result<TrainableFactory> {
    let mut known = Vec::new();
    for name in listed.iter() {
        known.push(LoggerName::from_str(name, false).map_err(|_| {
            let all: Vec<String> = LoggerName::value_variants().iter().map(|name| name.name()).collect();
            usage(format!("`loggers` has \"{name}\", but it takes {}", all.join(", ")))
        })?);
    }
    known.extend(names);
    let trials = experiment.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let trials: Vec<PathBuf> = trials.map(|entry| entry.path()).collect();
    let known = in_the_form_of_before(known, &trials, |line| tracing::warn!("{line}"));
    for name in &known {
        trainable = match name {
            LoggerName::Mlflow => {
                let database = mlflow_database(tracking_uri())?;
                trainable.with_logger(move || MlflowLogger::of_sweep(database.clone()))
            }
            LoggerName::MlflowFolder => {
                let folder = mlflow_folder(tracking_uri())?;
                trainable.with_logger(move || MlflowFolderLogger::of_sweep(folder.clone()))
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
/// Fails if the environment names another kind of place than a logger writes.
pub(super) fn choice(names: &[LoggerName], experiment: &str) -> anyhow::Result<LoggerChoice> {
    let mut own: Vec<Box<dyn Logger>> = Vec::new();
    let mut known: Vec<LoggerName> = Vec::new();
    for name in names {
        if known.contains(name) {
            continue;
        }
        known.push(*name);
        own.push(match name {
            LoggerName::Mlflow => Box::new(match mlflow_database(tracking_uri())? {
                Some(database) => MlflowLogger::new(database, experiment),
                None => MlflowLogger::beside_run(experiment),
            }),
            LoggerName::MlflowFolder => Box::new(match mlflow_folder(tracking_uri())? {
                Some(folder) => MlflowFolderLogger::new(folder, experiment),
                None => MlflowFolderLogger::beside_run(experiment),
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

/// Returns each name once. Runs in these directories that began in MLflow's folders continue there: before there was
/// `mlflow-folder`, `mlflow` wrote folders.
pub(super) fn in_the_form_of_before(
    names: Vec<LoggerName>,
    run_dirs: &[PathBuf],
    say: impl FnOnce(&str),
) -> Vec<LoggerName> {
    let began_in_folder = run_dirs.iter().any(|dir| MlflowFolderLogger::knows(dir))
        && !run_dirs.iter().any(|dir| MlflowLogger::knows(dir));
    let is_moved = began_in_folder && names.contains(&LoggerName::Mlflow);
    if is_moved {
        say(
            "MLflow's folders have the results so far and get the next ones (`mlflow-folder`), not `mlflow.db`",
        );
    }
    let mut kept = Vec::new();
    for name in names {
        let name = if is_moved && name == LoggerName::Mlflow { LoggerName::MlflowFolder } else { name };
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    kept
}

/// MLflow's own variable.
fn tracking_uri() -> Option<String> {
    std::env::var("MLFLOW_TRACKING_URI").ok().filter(|uri| !uri.is_empty())
}

/// Returns the SQLite file that `MLFLOW_TRACKING_URI` names; `None` if the variable is not set.
fn mlflow_database(uri: Option<String>) -> anyhow::Result<Option<PathBuf>> {
    let Some(uri) = uri else { return Ok(None) };
    // Four slashes begin an absolute path.
    match uri.strip_prefix("sqlite:///") {
        Some(path) if !path.is_empty() && !path.contains(['?', '#']) && path != ":memory:" => {
            Ok(Some(path.into()))
        }
        _ => Err(usage(format!(
            "MLFLOW_TRACKING_URI is {uri}, but `--logger mlflow` writes an SQLite file: set it to sqlite:///FILE, unset it, \
             or use `--logger mlflow-folder` for a folder"
        ))),
    }
}

/// Returns the folder that `MLFLOW_TRACKING_URI` names; `None` if the variable is not set.
fn mlflow_folder(uri: Option<String>) -> anyhow::Result<Option<PathBuf>> {
    let Some(uri) = uri else { return Ok(None) };
    let path = uri.strip_prefix("file://").or_else(|| uri.strip_prefix("file:")).unwrap_or(&uri);
    if path.contains("://") || path == "databricks" || path.is_empty() {
        return Err(usage(format!(
            "MLFLOW_TRACKING_URI is {uri}, but `--logger mlflow-folder` writes a folder: set it to a folder, or unset it"
        )));
    }
    Ok(Some(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_mlflow_is_an_sqlite_file() {
        let of = |uri: &str| mlflow_database(Some(uri.into())).map_err(|error| error.to_string());
        assert_eq!(of("sqlite:////tmp/mlflow.db"), Ok(Some("/tmp/mlflow.db".into())));
        assert_eq!(of("sqlite:///mlflow.db"), Ok(Some("mlflow.db".into())));
        for other in ["http://localhost:5000", "sqlite://", "sqlite:///:memory:", "file:mlruns", "databricks"]
        {
            assert!(of(other).unwrap_err().contains("set it to sqlite:///FILE"), "{other}");
        }
    }

    #[test]
    fn a_folder_of_mlflow_is_a_directory() {
        let of = |uri: &str| mlflow_folder(Some(uri.into())).map_err(|error| error.to_string());
        assert_eq!(of("file:///tmp/mlruns"), Ok(Some("/tmp/mlruns".into())));
        assert_eq!(of("file:mlruns"), Ok(Some("mlruns".into())));
        assert_eq!(of("mlruns"), Ok(Some("mlruns".into())));
        for other in ["http://localhost:5000", "sqlite:///a.db", "databricks"] {
            assert!(of(other).unwrap_err().contains("set it to a folder"), "{other}");
        }
    }
}
