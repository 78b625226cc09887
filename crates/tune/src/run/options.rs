//! Options of a run: its name, its directory, its loggers, and which checkpoints it keeps.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::base::{Config, Error, Resources, Result, files, node};
use crate::loggers::Logger;
use crate::run::Resume;
use crate::storage::{self, SyncConfig};
use crate::trainable::TrialContext;

/// Options of a run that are not settings of the trainable.
#[derive(Debug)]
pub struct RunOptions {
    /// Run directory. `None` makes a new one under `results_dir` or, with a `remote_checkpoint_dir`
    /// `s3://bucket/run`, uses `<results root>/s3/bucket/run`.
    pub logdir: Option<PathBuf>,
    /// What happens if the run directory, or `remote_checkpoint_dir`, holds a run already. The default refuses it.
    pub resume: Resume,
    /// URL such as `s3://bucket/run` to which the run directory is uploaded in the background, before and with each
    /// checkpoint.
    ///
    /// With a URL, `keep_checkpoints_num` limits the checkpoints at the URL. The local directory keeps only the newest
    /// one and those that are not uploaded yet.
    pub remote_checkpoint_dir: Option<String>,
    /// Options of the upload to `remote_checkpoint_dir`.
    pub sync_config: SyncConfig,
    /// Directory in which new run directories are made. `None` uses the environment variable `PAVLOV_RESULTS_DIR`, else
    /// `~/pavlov_results`.
    pub results_dir: Option<PathBuf>,
    /// First part of the name of a new run directory, e.g. `PPO_CartPole-v1`. `None` uses the trainable's kind.
    pub name: Option<String>,
    /// Id of the trial; `None` stands for `"default"`.
    pub trial_id: Option<String>,
    /// Name of the trial; `None` stands for `"default"`.
    pub trial_name: Option<String>,
    /// Resources that the sweep reserved for the trial.
    pub trial_resources: Option<Resources>,
    /// Loggers that receive the results.
    pub loggers: LoggerChoice,
    /// Maximum number of checkpoints in the run directory: the newest ones, and the best one in addition. `None` keeps
    /// all.
    pub keep_checkpoints_num: Option<usize>,
    /// Metric that decides which checkpoint is the best, with nested keys joined by `/`. Higher is better, or lower
    /// with the prefix `min-`. Default: `episode_reward_mean`.
    pub checkpoint_score_attr: String,
    /// Settings of a trial that the searcher sampled, for TensorBoard's HPARAMS tab. `None` writes nothing there.
    pub hparams: Option<Config>,
    /// Whether to add CPU and memory use of the machine to each result as `perf`.
    pub log_sys_usage: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            logdir: None,
            resume: Resume::default(),
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

/// Choice of the loggers that receive the results.
#[derive(Default)]
pub enum LoggerChoice {
    /// The standard log files in the run directory: `params.json`, `result.json`, `progress.csv` and TensorBoard
    /// events.
    #[default]
    Default,
    /// No logger.
    None,
    /// Only these loggers, in this order.
    Custom(Vec<Box<dyn Logger>>),
    /// The loggers of `Default`, then these.
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
    /// Checks the options and returns the trial's context, with names and run directory.
    pub(crate) fn trial(&self, kind: &str) -> Result<TrialContext> {
        if self.keep_checkpoints_num == Some(0) {
            return Err(Error::config(
                "keep_checkpoints_num",
                0,
                "it must be 1 or more, or absent to keep all",
            ));
        }
        if self.resume == Resume::IfThere && self.logdir.is_none() && self.remote_checkpoint_dir.is_none() {
            let rule =
                "it needs `logdir` or `remote_checkpoint_dir`: without them every run has a new directory";
            return Err(Error::config("resume", "Resume::IfThere", rule));
        }
        let or_default = |name: &Option<String>| name.clone().unwrap_or_else(|| crate::base::NO_TRIAL.into());
        Ok(TrialContext {
            trial_id: or_default(&self.trial_id),
            trial_name: or_default(&self.trial_name),
            trial_resources: self.trial_resources.clone(),
            logdir: self.resolve_logdir(kind)?,
        })
    }

    /// Returns the absolute path of the run directory, without creating it.
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
