//! A sweep as a TOML file.
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
//! A program lets its sweep files name schedulers, searchers and stoppers of its own: [`schedulers::register`],
//! [`search::register`], [`stoppers::register`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schedulers::{self, TrialScheduler};
use crate::search::{self, BasicVariantConfig, BasicVariantGenerator, SearchSpace, Searcher, Suggestion};
use crate::stoppers::{self, CombinedStopper, Stopper, StoppingCriteria};
use crate::tuner::check_name;
use crate::{
    Bundle, CheckpointConfig, Config, Error, ExecutorKind, FailureConfig, Objective, Resources, Result,
    RunConfig, TrainableFactory, TuneConfig, Tuner, config, limit, metric,
};

/// What a sweep file says. What the trainable is, its caller knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SweepFile {
    /// The name of what to train.
    pub algorithm: String,
    /// The environment to train in.
    pub env: Option<String>,
    /// A preset that the settings of `space` are laid over.
    pub preset: Option<String>,
    /// What the sweep optimises, see [`TuneConfig::objective`]; the file has it as `metric` and `mode`.
    #[serde(flatten, with = "metric::pair")]
    pub objective: Option<Objective>,
    /// How many trials are drawn, see [`TuneConfig::num_samples`]. Absent: 1. `None` is -1 in the file.
    #[serde(with = "limit::minus_one")]
    pub num_samples: Option<u64>,
    /// The seed of the searcher and scheduler where they have none of their own. Trials get one only if `space` has it.
    pub seed: u64,
    /// How many trials run at the same time, at most, see [`TuneConfig::max_concurrent_trials`].
    pub max_concurrent_trials: Option<usize>,
    /// How many seconds the sweep may run. Absent: without end.
    pub time_budget_s: Option<f64>,
    /// Whether a trial that ends hands its trainable on to the next one, see [`TuneConfig::reuse_actors`].
    pub reuse_actors: bool,
    /// Where trials run: `"threads"`, `"processes"` or `"ray"`.
    pub executor: ExecutorKind,
    /// The experiment's name.
    pub name: Option<String>,
    /// When a trial stops: any of these result keys has reached its value.
    pub stop: Config,
    /// When a trial or the whole sweep stops: for each stopper `type`, and the settings of that stopper.
    pub stoppers: Vec<Config>,
    /// Settings, some of them to be drawn.
    pub space: Config,
    /// The scheduler: its `type` and its settings. Absent: FIFO.
    pub scheduler: Config,
    /// The searcher: its `type` and its settings. Absent: random and grid search.
    pub search: Config,
    /// Which checkpoints are written and kept.
    pub checkpoint: CheckpointConfig,
    /// What happens when a trial fails.
    pub failure: FailureConfig,
    /// What a trial needs, e.g. `{ CPU = 2, GPU = 0.5 }`. Absent: what the trainable asks for.
    pub resources: Option<Bundle>,
    /// What there is to share out. Absent: the cores and GPUs of this machine, or what the Ray cluster has.
    pub total_resources: Option<Bundle>,
}

/// What Ray and a file for `train` call a setting, and its name in a sweep file.
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
            resources: None,
            total_resources: None,
        }
    }
}

impl SweepFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file cannot be read, and the errors of [`parse`](SweepFile::parse) with the file's
    /// name.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = config::read_settings(path)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads TOML; `origin` is for messages.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the text is no TOML, if a value has the wrong kind, if a key has the name that Ray gives
    /// it, if `name` is no name of a directory, or if there is no `algorithm`.
    /// Returns [`Error::UnknownKey`] with the nearest key if there is no such setting, and [`Error::Refusals`] if there
    /// are several such keys.
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
        // Also where another one is given besides, and this one is not used.
        file.name.as_deref().map_or(Ok(()), check_name)?;
        Ok(file)
    }

    /// The sweep of this file over `trainable`, to write below `storage_path` (`None`: the default place).
    ///
    /// # Errors
    /// Returns [`Error::Config`] or [`Error::UnknownKey`] if a searcher, scheduler or stop condition does not exist or
    /// has wrong settings, [`Error::Config`] if `time_budget_s` is no time, and [`Error::Resources`] if `resources`
    /// asks for nothing or for an amount that cannot be.
    pub fn tuner(&self, trainable: TrainableFactory, storage_path: Option<PathBuf>) -> Result<Tuner> {
        let trainable = match &self.resources {
            Some(bundle) => trainable.with_resources(Resources::new(vec![bundle.clone()])?),
            None => trainable,
        };
        let scheduler: Option<Box<dyn TrialScheduler>> = match self.scheduler.is_empty() {
            true => None,
            false => Some(schedulers::from_config(&self.scheduler, self.seed)?),
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

    /// Joins `criteria`, which are those of `stop`, with the file's `stoppers`; `None` where neither stops anything.
    ///
    /// # Errors
    /// Returns [`Error::Config`] or [`Error::UnknownKey`] if a stopper does not exist or has wrong settings.
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

    /// The settings of trial `number` alone, for one job of an array.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the sweep has no trial of that number, if the searcher learns from results and
    /// cannot tell without them, or if the searcher or the space is wrong.
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
