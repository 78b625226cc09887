//! Sweep files: the description of a sweep in TOML.
//!
//! ```toml
//! algorithm = "PPO"
//! env = "CartPole-v1"
//! metric = "episode_reward_mean"
//! mode = "max"
//! num_samples = 4
//! seed = 5
//! [stop]
//! training_iteration = 40
//! [space]
//! lr = { loguniform = [1e-4, 1e-2] }
//! clip_param = { grid_search = [0.1, 0.3] }
//! [scheduler]
//! type = "ASHA"
//! grace_period = 5
//! [search]
//! type = "TPE"
//! [checkpoint]
//! checkpoint_frequency = 1
//! num_to_keep = 2
//! [[stoppers]]
//! type = "TrialPlateau"
//! metric = "episode_reward_mean"
//! ```
//!
//! A program can make its own schedulers, searchers and stoppers available to sweep files: see [`schedulers::register`],
//! [`search::register`], [`stoppers::register`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{Bundle, Config, Error, Objective, Resources, Result, config, limit, metric};
use crate::functions::TrainableFactory;
use crate::schedulers::{self, TrialScheduler};
use crate::search::{self, BasicVariantConfig, BasicVariantGenerator, SearchSpace, Searcher, Suggestion};
use crate::stoppers::{self, CombinedStopper, Stopper, StoppingCriteria};
use crate::tuner::{CheckpointConfig, ExecutorKind, FailureConfig, RunConfig, TuneConfig, Tuner, check_name};

/// Contents of a sweep file. The caller of [`tuner`](SweepFile::tuner) turns `algorithm` into a trainable.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SweepFile {
    /// Name of the algorithm to train; required.
    pub algorithm: String,
    /// Name of the environment to train in.
    pub env: Option<String>,
    /// Name of a preset whose settings `space` overrides.
    pub preset: Option<String>,
    /// Objective of the sweep, see [`TuneConfig::objective`]; the file writes it as `metric` and `mode`.
    #[serde(flatten, with = "metric::pair")]
    pub objective: Option<Objective>,
    /// Number of samples, see [`TuneConfig::num_samples`]. Default: 1. `None` means no limit, which the file writes as -1.
    #[serde(with = "limit::minus_one")]
    pub num_samples: Option<u64>,
    /// Seed of the searcher and scheduler if they have none of their own. Trials have a seed only if `space` sets one.
    pub seed: u64,
    /// Maximum number of trials that run at the same time, see [`TuneConfig::max_concurrent_trials`].
    pub max_concurrent_trials: Option<usize>,
    /// Maximum running time of the sweep in seconds. Default: unlimited.
    pub time_budget_s: Option<f64>,
    /// Whether a finished trial passes its trainable on to the next trial, see [`TuneConfig::reuse_actors`].
    pub reuse_actors: bool,
    /// Executor that runs the trials: `"threads"`, `"processes"` or `"ray"`.
    pub executor: ExecutorKind,
    /// Name of the experiment.
    pub name: Option<String>,
    /// Stopping criteria: a trial stops when any of these result keys reaches its value.
    pub stop: Config,
    /// Stoppers that end a trial or the whole sweep: each entry has a `type` and that stopper's settings.
    pub stoppers: Vec<Config>,
    /// Search space: settings of the trials, with domains for the values to draw.
    pub space: Config,
    /// Scheduler: its `type` and its settings. Default: FIFO.
    pub scheduler: Config,
    /// Searcher: its `type` and its settings. Default: random and grid search.
    pub search: Config,
    /// Settings for which checkpoints are written and kept.
    pub checkpoint: CheckpointConfig,
    /// Settings for what happens when a trial fails.
    pub failure: FailureConfig,
    /// Names of programs that also get the results of the trials, such as `mlflow`. [`tuner`](SweepFile::tuner) does not read
    /// them: its caller adds the loggers to the trainable.
    pub loggers: Vec<String>,
    /// Resources of one trial, e.g. `{ CPU = 2, GPU = 0.5 }`. Default: the resources that the trainable asks for.
    pub resources: Option<Bundle>,
    /// Total resources for all trials. Default: the cores and GPUs of this machine, or the resources of the Ray cluster.
    pub total_resources: Option<Bundle>,
}

/// Names that Ray or a settings file for `train` uses, each with the name of the same setting in a sweep file.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("config", "space"),
    ("param_space", "space"),
    ("params", "space"),
    ("run", "algorithm"),
    ("search_alg", "search"),
    ("resources_per_trial", "resources"),
    ("checkpoint_freq", "checkpoint.checkpoint_frequency"),
    ("keep_checkpoints_num", "checkpoint.num_to_keep"),
    ("max_failures", "failure.max_failures"),
];

impl Default for SweepFile {
    fn default() -> Self {
        SweepFile {
            algorithm: String::new(),
            env: None,
            preset: None,
            objective: None,
            num_samples: Some(1),
            seed: 0,
            max_concurrent_trials: None,
            time_budget_s: None,
            reuse_actors: false,
            executor: ExecutorKind::default(),
            name: None,
            stop: Config::new(),
            stoppers: Vec::new(),
            space: Config::new(),
            scheduler: Config::new(),
            search: Config::new(),
            checkpoint: CheckpointConfig::default(),
            failure: FailureConfig::default(),
            loggers: Vec::new(),
            resources: None,
            total_resources: None,
        }
    }
}

impl SweepFile {
    /// Reads a sweep file.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file cannot be read, and the errors of [`parse`](SweepFile::parse) with the name of the
    /// file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = config::read_settings(path)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses a sweep file from TOML; `origin` names the file in messages.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the text is not TOML, if a value has the wrong type, if a key is Ray's name for a
    /// setting, or if `name` is not a valid directory name, and [`Error::Missing`] if `algorithm` is missing. Returns
    /// [`Error::UnknownKey`] with the nearest key if a setting does not exist. Several unknown keys, or several names of
    /// Ray's, are one [`Error::Refusals`].
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let values = config::parse_toml(text, origin)?;
        let Ok(Value::Object(defaults)) = serde_json::to_value(Self::default()) else {
            return Err(Error::other("the defaults of a sweep file are not JSON"));
        };
        let others = OTHER_NAMES.iter().filter_map(|(other, name)| {
            let value = values.get(*other)?;
            Some(Error::config(*other, value, format!("in a sweep file its name is `{name}`")))
        });
        Error::all(others)?;
        let layer = config::Layer { origin: origin.into(), values };
        let open = ["stop", "space", "scheduler", "search", "resources", "total_resources"];
        let file: SweepFile = config::decode(&config::overlay(&defaults, vec![layer], &open)?.config)?;
        if file.algorithm.is_empty() {
            return Err(Error::missing("algorithm", "write the name of what to train, such as \"PPO\""));
        }
        // The name must be valid even if the caller uses another name.
        file.name.as_deref().map_or(Ok(()), check_name)?;
        Ok(file)
    }

    /// Creates the tuner of this sweep for `trainable`. The tuner writes below `storage_path`; `None` stands for the
    /// default directory.
    ///
    /// # Errors
    /// Returns [`Error::Config`] or [`Error::UnknownKey`] if a searcher, scheduler or stop condition does not exist or has
    /// invalid settings, [`Error::Config`] if `time_budget_s` is not a valid duration, and [`Error::Resources`] if
    /// `resources` is empty or has an impossible amount.
    pub fn tuner(&self, trainable: TrainableFactory, storage_path: Option<PathBuf>) -> Result<Tuner> {
        let trainable = match &self.resources {
            Some(bundle) => trainable.with_resources(Resources::new(vec![bundle.clone()])?),
            None => trainable,
        };
        let scheduler: Option<Box<dyn TrialScheduler>> = if self.scheduler.is_empty() {
            None
        } else {
            Some(schedulers::from_config(&self.scheduler, self.seed)?)
        };
        let time_budget = self
            .time_budget_s
            .map(|seconds| {
                Duration::try_from_secs_f64(seconds)
                    .map_err(|_| Error::config("time_budget_s", seconds, "it must be seconds, 0 or more"))
            })
            .transpose()?;
        Ok(Tuner {
            trainable,
            param_space: self.space.clone().into(),
            tune_config: TuneConfig {
                objective: self.objective.clone(),
                num_samples: self.num_samples,
                seed: self.seed,
                max_concurrent_trials: self.max_concurrent_trials,
                search_alg: self.searcher()?,
                scheduler,
                time_budget,
                reuse_actors: self.reuse_actors,
                executor: self.executor,
                total_resources: self.total_resources.clone(),
            },
            run_config: RunConfig {
                name: self.name.clone(),
                storage_path,
                stop: self.stopper(StoppingCriteria::new(&self.stop)?)?,
                failure_config: self.failure,
                checkpoint_config: self.checkpoint.clone(),
                ..RunConfig::default()
            },
        })
    }

    /// Combines `criteria`, the stopping criteria of `stop`, with the file's `stoppers`. Returns `None` if there are
    /// neither.
    ///
    /// # Errors
    /// Returns [`Error::Config`] or [`Error::UnknownKey`] if a stopper does not exist or has invalid settings.
    pub fn stopper(&self, criteria: StoppingCriteria) -> Result<Option<Box<dyn Stopper>>> {
        let mut all: Vec<Box<dyn Stopper>> = Vec::new();
        if !criteria.is_empty() {
            all.push(Box::new(criteria));
        }
        for stopper in &self.stoppers {
            all.push(stoppers::from_config(stopper)?);
        }
        Ok(match all.len() {
            0 | 1 => all.pop(),
            _ => Some(Box::new(CombinedStopper::new(all))),
        })
    }

    fn searcher(&self) -> Result<Option<Box<dyn Searcher>>> {
        if self.search.is_empty() {
            return Ok(None);
        }
        search::from_config(&self.search, self.seed).map(Some)
    }

    /// Returns the settings of trial `number` alone, for running each trial as one job of a job array.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the sweep has no trial of that number, if the searcher needs earlier results to suggest
    /// it, or if the searcher or the space is invalid.
    pub fn trial(&self, number: u64) -> Result<Config> {
        let mut searcher: Box<dyn Searcher> = match self.searcher()? {
            Some(searcher) => searcher,
            None => {
                let settings = BasicVariantConfig { seed: self.seed, ..BasicVariantConfig::default() };
                Box::new(BasicVariantGenerator::new(settings))
            }
        };
        let space = SearchSpace::from(self.space.clone());
        searcher.set_search_properties(self.objective.as_ref(), &space)?;
        let total = searcher.total_samples(self.num_samples);
        if let Some(total) = total.filter(|total| number >= *total) {
            return Err(Error::config(
                "trial",
                number,
                format!("it must be below {total}, the trials of the sweep"),
            ));
        }
        for earlier in 0..=number {
            match searcher.suggest(&format!("{earlier:05}"))? {
                Suggestion::Trial { config, .. } if earlier == number => return Ok(config),
                Suggestion::Trial { .. } => {}
                Suggestion::Wait | Suggestion::Finished => break,
            }
        }
        let rule = "the searcher must know earlier results first: run the whole sweep";
        Err(Error::config("trial", number, rule))
    }
}
