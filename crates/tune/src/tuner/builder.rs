//! The settings of a [`Tuner`] as methods.

use std::path::PathBuf;
use std::time::Duration;

use super::{Callback, ExecutorKind, ProgressReporter, Tuner};
use crate::base::{Bundle, Count, Number, Objective};
use crate::run::Resume;
use crate::schedulers::TrialScheduler;
use crate::search::{SearchSpace, Searcher};
use crate::stoppers::{CombinedStopper, Stopper, StoppingCriteria};

/// Methods for the settings that programs change most often. All other settings, and optional values that are only known at
/// run time, are fields of [`tune_config`](Tuner::tune_config) and [`run_config`](Tuner::run_config).
impl Tuner {
    /// Sets the search space: the settings of the trials, in which a domain such as
    /// [`loguniform`](crate::search::loguniform) is drawn for each trial.
    #[must_use]
    pub fn space(mut self, space: impl Into<SearchSpace>) -> Self {
        self.param_space = space.into();
        self
    }

    /// Makes high values of `metric` the objective. Parts of a nested key are joined by `/`.
    #[must_use]
    pub fn maximize(mut self, metric: impl Into<String>) -> Self {
        self.tune_config.objective = Some(Objective::maximize(metric));
        self
    }

    /// Makes low values of `metric` the objective. Parts of a nested key are joined by `/`.
    #[must_use]
    pub fn minimize(mut self, metric: impl Into<String>) -> Self {
        self.tune_config.objective = Some(Objective::minimize(metric));
        self
    }

    /// Sets the number of samples, a number of any integer type, each of which is one trial, or the whole grid in a grid search. Default: 1.
    #[must_use]
    pub fn samples(mut self, samples: impl Count) -> Self {
        self.tune_config.num_samples = Some(samples.count());
        self
    }

    /// Sets the seed of the default searcher: the same seed draws the same trials.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.tune_config.seed = seed;
        self
    }

    /// Draws trials with `searcher` instead of random and grid search.
    #[must_use]
    pub fn search_alg(mut self, searcher: impl Searcher + 'static) -> Self {
        self.tune_config.search_alg = Some(Box::new(searcher));
        self
    }

    /// Sets the scheduler, which stops, pauses and changes trials. Default: every trial runs to its end.
    #[must_use]
    pub fn scheduler(mut self, scheduler: impl TrialScheduler + 'static) -> Self {
        self.tune_config.scheduler = Some(Box::new(scheduler));
        self
    }

    /// Runs at most `trials` trials at the same time.
    #[must_use]
    pub fn max_concurrent_trials(mut self, trials: usize) -> Self {
        self.tune_config.max_concurrent_trials = Some(trials);
        self
    }

    /// Ends the sweep after the running time `budget`, which includes the time before a restore.
    #[must_use]
    pub fn time_budget(mut self, budget: Duration) -> Self {
        self.tune_config.time_budget = Some(budget);
        self
    }

    /// Sets where trials run: in threads, in processes or on a Ray cluster.
    #[must_use]
    pub fn executor(mut self, executor: ExecutorKind) -> Self {
        self.tune_config.executor = executor;
        self
    }

    /// Sets the resources that trials share: `[("CPU".to_string(), 4.0)]`.
    #[must_use]
    pub fn total_resources(mut self, resources: impl Into<Bundle>) -> Self {
        self.tune_config.total_resources = Some(resources.into());
        self
    }

    /// Names the experiment's directory below the storage path.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.run_config.name = Some(name.into());
        self
    }

    /// Sets the directory, or the URL such as `s3://bucket/prefix`, below which experiments are written.
    #[must_use]
    pub fn storage_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.run_config.storage_path = Some(path.into());
        self
    }

    /// Sets what happens if there is a sweep of that [`name`](Tuner::name) already. [`Resume::IfThere`] makes the restart of
    /// a program that was killed one line: [`fit`](Tuner::fit) then continues the sweep as [`restore`](Tuner::restore) does,
    /// with the default [`Restore`](crate::Restore).
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.run_config.resume = resume;
        self
    }

    /// Ends a trial once the result key `key` is at least `value`. Several calls add conditions; the first one that is
    /// met ends the trial.
    #[must_use]
    pub fn stop(self, key: impl Into<String>, value: impl Number) -> Self {
        self.stopper(StoppingCriteria::from_iter([(key, value.number())]))
    }

    /// Adds a stopper, which ends trials or the whole sweep; stop conditions that were set before stay in force.
    #[must_use]
    pub fn stopper(mut self, stopper: impl Stopper + 'static) -> Self {
        let stopper = Box::new(stopper);
        self.run_config.stop = Some(match self.run_config.stop.take() {
            None => stopper,
            Some(before) => Box::new(CombinedStopper::new(vec![before, stopper])),
        });
        self
    }

    /// Retries a failed trial from its newest checkpoint, up to `failures` times. Default: no retry.
    #[must_use]
    pub fn max_failures(mut self, failures: u64) -> Self {
        self.run_config.failure_config.max_failures = Some(failures);
        self
    }

    /// Writes a checkpoint of each trial every `iterations` iterations.
    #[must_use]
    pub fn checkpoint_frequency(mut self, iterations: u64) -> Self {
        self.run_config.checkpoint_config.checkpoint_frequency = Some(iterations);
        self
    }

    /// Adds a callback, which is called at the events of the sweep, after the callbacks that were added before.
    #[must_use]
    pub fn callback(mut self, callback: impl Callback + 'static) -> Self {
        self.run_config.callbacks.push(Box::new(callback));
        self
    }

    /// Sets what shows the running sweep to the user. Without a reporter one line is printed, after half a minute: how many
    /// trials run and wait.
    #[must_use]
    pub fn progress_reporter(mut self, reporter: impl ProgressReporter + 'static) -> Self {
        self.run_config.progress_reporter = Some(Box::new(reporter));
        self
    }
}
