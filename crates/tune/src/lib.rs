//! Hyperparameter sweeps, as Ray Tune and Optuna run them in Python: many trials of one trainable with sampled settings.
//! Trials can be stopped early, saved, and restored after any interruption.
//!
//! ```no_run
//! use pavlov_tune::search::loguniform;
//! use pavlov_tune::{Config, Result, TrainableFactory, Tuner, session};
//! use serde_json::json;
//!
//! fn descend(config: &Config) -> Result<()> {
//!     let mut x = 1.0;
//!     for _ in 0..10 {
//!         x -= config.get_or("lr", 0.1)? * 2.0 * x;
//!         session::report(json!({"loss": x * x}), None)?;
//!     }
//!     Ok(())
//! }
//!
//! fn main() -> Result<()> {
//!     let results = Tuner::new(TrainableFactory::function("descend", descend))
//!         .space(json!({"lr": loguniform(1e-3, 1.0)}))
//!         .minimize("loss")
//!         .samples(20)
//!         .stop("training_iteration", 8)
//!         .fit()?;
//!     println!("{}", results.best()?.config["lr"]);
//!     Ok(())
//! }
//! ```
//!
//! In the crate `pavlov`, `ppo.as_trainable("CartPole-v1")` makes a trainable from an algorithm. A function reports through
//! [`session`]; a [`Trainable`] trains step by step and can be paused, saved and restored at any step.
//! [`validate_save_restore`] checks that a trainable continues exactly after a restore.
//!
//! # Names in Ray Tune and Optuna
//!
//! | Ray Tune | Optuna | here |
//! |---|---|---|
//! | `Tuner(trainable, param_space=..)` | `create_study()` | [`Tuner::new`], [`Tuner::space`] |
//! | `TuneConfig(metric=.., mode="max")` | `direction="maximize"` | [`Tuner::maximize`], [`Tuner::minimize`] |
//! | `TuneConfig(num_samples=4)` | `optimize(f, n_trials=4)` | [`Tuner::samples`] |
//! | `RunConfig(stop={"training_iteration": 10})` | | [`Tuner::stop`], [`Tuner::stopper`] |
//! | `tune.loguniform(a, b)`, `tune.choice([..])` | `suggest_float(.., log=True)`, `suggest_categorical` | [`search::loguniform`], [`search::choice`] |
//! | `tune.report({..})` | `trial.report(..)` | [`session::report`] |
//! | `class MyTrainable(tune.Trainable)` | | [`Trainable`], [`TrainableFactory::new`] |
//! | `ASHAScheduler()` | `SuccessiveHalvingPruner()` | [`schedulers::AsyncHyperBandScheduler`] |
//! | `HyperBandScheduler()` | `HyperbandPruner()` | [`schedulers::HyperBandScheduler`] |
//! | `MedianStoppingRule()` | `MedianPruner()` | [`schedulers::MedianStoppingRule`] |
//! | `OptunaSearch()`, `HyperOptSearch()` | `TPESampler()` | [`search::TpeSearch`] |
//! | `RunConfig(storage_path=.., name=..)` | `storage=..`, `study_name=..` | [`Tuner::storage_path`], [`Tuner::name`] |
//! | `Tuner.restore(path, ..)` | `load_if_exists=True` | [`Tuner::can_restore`], [`Tuner::restore`] |
//! | `results.get_best_result().config` | `study.best_params` | [`results.best()?.config`](ResultGrid::best) |
//! | `results.get_dataframe()` | `study.trials_dataframe()` | [`ResultGrid::get_dataframe`] |
//!
//! The module [`ray1`] has the names of Ray 0.8 and 1.x that Ray 2 no longer has.
//!
//! # Choosing a scheduler and a searcher
//!
//! | scheduler | when to use it |
//! |---|---|
//! | [`FifoScheduler`](schedulers::FifoScheduler), the default | every trial should run to its end |
//! | [`AsyncHyperBandScheduler`](schedulers::AsyncHyperBandScheduler) (ASHA) | bad trials show early; the first choice for long trials |
//! | [`HyperBandScheduler`](schedulers::HyperBandScheduler) | nobody knows how early bad trials show; trials must be able to pause |
//! | [`HyperBandScheduler::for_bohb`](schedulers::HyperBandScheduler::for_bohb) | with the searcher [`TuneBohb`](search::TuneBohb) |
//! | [`MedianStoppingRule`](schedulers::MedianStoppingRule) | trials have different lengths; only those below the median of the others are stopped |
//! | [`PopulationBasedTraining`](schedulers::PopulationBasedTraining) | the best settings change during training, and each trial can be saved |
//! | [`ResourceChangingScheduler`](schedulers::ResourceChangingScheduler) | trials train faster with the cores that others leave |
//!
//! | searcher | when to use it |
//! |---|---|
//! | [`BasicVariantGenerator`](search::BasicVariantGenerator), the default | random and grid search; all trials may run at once |
//! | [`TpeSearch`](search::TpeSearch) | trials are expensive, and later trials should learn from earlier ones |
//! | [`TuneBohb`](search::TuneBohb) | as for `TpeSearch`, with HyperBand as the scheduler; it also learns from the results of trials that have not ended |
//! | [`Repeater`](search::Repeater) | results vary with the seed; it wraps another searcher, which then compares means |
//! | [`ConcurrencyLimiter`](search::ConcurrencyLimiter) | fewer trials should run at once; it wraps another searcher, whose suggestions are then based on more results |
//!
//! # User-defined schedulers, searchers and stoppers
//!
//! A scheduler is a [`TrialScheduler`](schedulers::TrialScheduler): `on_trial_result` decides whether the trial that has
//! reported a result continues.
//!
//! ```
//! use pavlov_tune::schedulers::{Answer, Decision, TrialScheduler};
//! use pavlov_tune::{Metrics, Result, Trial};
//!
//! /// Ends trials whose loss is above a bound.
//! struct Below(f64);
//!
//! impl TrialScheduler for Below {
//!     fn on_trial_result(&mut self, _: &Trial, result: &Metrics, _: &[Trial]) -> Result<Answer> {
//!         let is_bad = result["loss"].as_f64().is_none_or(|loss| loss > self.0);
//!         Ok(if is_bad { Decision::Stop } else { Decision::Continue }.into())
//!     }
//!     fn debug_string(&self) -> String {
//!         format!("ends above {}", self.0)
//!     }
//! }
//! ```
//!
//! A searcher is a [`Searcher`](search::Searcher): `suggest` returns the settings of the next trial. A stop condition is
//! a [`Stopper`](stoppers::Stopper), and a [`Callback`] is called at the events of a sweep. The decisions of schedulers,
//! searchers and stoppers must depend only on their settings and on the calls made to them, because a restored sweep
//! makes new ones and repeats the calls. [`schedulers::register`], [`search::register`] and [`stoppers::register`] give
//! them names for sweep files.
//!
//! # Guarantees of a restored sweep
//!
//! * [`Tuner::restore`] continues a sweep that ended in any way: Ctrl-C, `kill -9`, a power cut. Results that were
//!   written are never lost; after a power cut, the results of the last second may have to be trained again.
//! * Trials continue from their newest complete checkpoint. A checkpoint is either complete or absent. If one is damaged,
//!   the checkpoint before it is used.
//! * If trainables continue exactly and the scheduler does not compare trials, the results equal those of an
//!   uninterrupted sweep. A scheduler that compares trials decides by the order in which results arrive.
//! * A restore that would draw or decide differently (another space, seed, searcher or scheduler) is refused with an
//!   error that names the trial and the setting. More samples, and other stop conditions and limits, are allowed.
//!
//! # Where files go
//!
//! ```text
//! <storage path>/<experiment>/     ~/pavlov_results/<trainable>_<date>, unless the program says otherwise
//!     journal.jsonl                all events, one per line; a restore reads them
//!     results.csv                  a row for each trial, the best first
//!     3f2a1_00000/                 a trial: result.json, progress.csv, params.json, TensorBoard events, error.txt
//!         checkpoint_000010/       its checkpoints
//! ```
//!
//! If the storage path is a URL such as `s3://bucket/sweeps`, the same files are kept there; see [`storage`].
//!
//! # One run
//!
//! * A [`Driver`] runs one [`Trainable`] by `train`, `save`, `restore`, `reset` and `stop`. It adds the fields that every
//!   result has, and writes the run directory.
//! * [`config`] lays settings over defaults, records the origin of each, and refuses unknown ones.
//! * [`loggers`] write `result.json`, `progress.csv`, TensorBoard events and `params.json`.
//!
//! Settings and results are JSON objects, so that they can be laid over each other, logged, and read by other programs.
//! This crate does not need libtorch. Only names are specific to reinforcement learning: the fields `algorithm` and `env`
//! of a [`SweepFile`], the tags that TensorBoard shows, and `episode_reward_mean` as the default metric of the best
//! checkpoint. The crate runs on Unix systems only.

mod base;
pub mod checkpoint;
mod executor;
mod functions;
pub mod loggers;
pub mod ray1;
mod run;
pub mod schedulers;
pub mod search;
pub mod stoppers;
pub mod storage;
mod trainable;
mod tuner;

pub use base::{
    Bundle, Config, Count, Error, LARGEST_FILE, Metrics, Mode, Number, Objective, PlacementStrategy,
    Resources, Result, Trial, TrialStatus, config, in_words, read_file, replace_file, rng, write_file,
    write_output, write_whole,
};
pub use executor::{child_main, rollout_main};
pub use functions::{Function, IntoReport, TrainableFactory, session};
pub use run::{Driver, LoggerChoice, Resume, RunOptions, difference, validate_save_restore};
pub use trainable::{ExportFormat, Trainable, TrialContext};
pub use tuner::{
    Callback, CheckpointConfig, ExecutorKind, ExperimentFile, FailFast, FailureConfig, ProgressReporter,
    Restore, ResultGrid, RunConfig, Scope, Standings, SweepFile, SweepProgress, TrialResult, TuneConfig,
    Tuner,
};

/// Compiles the programs of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
