//! How a run is named, where it writes, and which checkpoints it keeps.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::loggers::Logger;
use crate::storage::{self, SyncConfig};
use crate::{Config, Error, Resources, Result, TrialContext, files, node};

/// Everything about a run that is not a setting of the trainable.
#[derive(Debug)]
pub struct RunOptions {
    /// The run directory itself; an existing one is continued. `None`: a fresh one under `results_dir`, or, with a
    /// `remote_checkpoint_dir`, `<results root>/s3/bucket/run` for `s3://bucket/run`.
    pub logdir: Option<PathBuf>,
    /// A URL such as `s3://bucket/run` where the run is kept: the run directory is brought there in the background,
    /// before each checkpoint and with it. `keep_checkpoints_num` is about the checkpoints there; here, only those stay
    /// that are not there yet, and the newest.
    pub remote_checkpoint_dir: Option<String>,
    /// How the run is uploaded to `remote_checkpoint_dir`.
    pub sync_config: SyncConfig,
    /// The directory in which fresh run directories are made. `None`: the environment variable `PAVLOV_RESULTS_DIR`, else
    /// `~/pavlov_results`.
    pub results_dir: Option<PathBuf>,
    /// The first part of a fresh run directory's name, e.g. `PPO_CartPole-v1`. `None`: the trainable's kind.
    pub name: Option<String>,
    /// The id of the trial. `None`: `"default"`.
    pub trial_id: Option<String>,
    /// The name of the trial. `None`: `"default"`.
    pub trial_name: Option<String>,
    /// The resources that the sweep reserved for the trial.
    pub trial_resources: Option<Resources>,
    /// Which loggers see the results.
    pub loggers: LoggerChoice,
    /// How many checkpoints stay in the run directory: the newest ones and, besides, the best one. `None`: all.
    pub keep_checkpoints_num: Option<usize>,
    /// The metric that says which checkpoint is best, nested keys joined by `/`. Higher is better; with `min-`
    /// in front, lower is.
    pub checkpoint_score_attr: String,
    /// The drawn settings of a trial, for TensorBoard's hparams tab. `None`: nothing is written there.
    pub hparams: Option<Config>,
    /// Whether to add CPU and memory use of the machine to each result as `perf`.
    pub log_sys_usage: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            logdir: None,
            remote_checkpoint_dir: None,
            sync_config: SyncConfig::default(),
            results_dir: None,
            name: None,
            trial_id: None,
            trial_name: None,
            trial_resources: None,
            loggers: LoggerChoice::Default,
            keep_checkpoints_num: None,
            checkpoint_score_attr: "episode_reward_mean".into(),
            hparams: None,
            log_sys_usage: false,
        }
    }
}

/// Which loggers see the results.
#[derive(Default)]
pub enum LoggerChoice {
    /// `params.json`, `result.json`, `progress.csv` and TensorBoard events in the run directory.
    #[default]
    Default,
    /// No logger.
    None,
    /// These, in this order.
    Custom(Vec<Box<dyn Logger>>),
    /// Those of `Default`, then these.
    DefaultAnd(Vec<Box<dyn Logger>>),
}

impl fmt::Debug for LoggerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoggerChoice::Default => f.write_str("Default"),
            LoggerChoice::None => f.write_str("None"),
            LoggerChoice::Custom(loggers) => write!(f, "Custom({} loggers)", loggers.len()),
            LoggerChoice::DefaultAnd(loggers) => write!(f, "DefaultAnd({} loggers)", loggers.len()),
        }
    }
}

impl RunOptions {
    /// Checks the options and names the run.
    pub(crate) fn trial(&self, kind: &str) -> Result<TrialContext> {
        if self.keep_checkpoints_num == Some(0) {
            return Err(Error::config(
                "keep_checkpoints_num",
                0,
                "it must be 1 or more, or absent to keep all",
            ));
        }
        let or_default = |name: &Option<String>| name.clone().unwrap_or_else(|| "default".into());
        Ok(TrialContext {
            trial_id: or_default(&self.trial_id),
            trial_name: or_default(&self.trial_name),
            trial_resources: self.trial_resources.clone(),
            logdir: self.resolve_logdir(kind)?,
        })
    }

    /// The run directory: absolute, not made here.
    fn resolve_logdir(&self, kind: &str) -> Result<PathBuf> {
        let path = match &self.logdir {
            Some(logdir) => logdir.clone(),
            None if self.remote_checkpoint_dir.is_some() => {
                storage::work_dir(self.remote_checkpoint_dir.as_deref().unwrap_or_default())?
            }
            None => {
                let name = self.name.as_deref().unwrap_or(kind).replace(['/', '\\'], "_");
                let unique = rand::random::<u32>();
                files::results_root(self.results_dir.as_deref())
                    .join(format!("{name}_{}{unique:08x}", node::date(&node::local(SystemTime::now()))))
            }
        };
        std::path::absolute(&path).map_err(Error::io("find the absolute path of", &path))
    }
}
