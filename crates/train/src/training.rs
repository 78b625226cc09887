//! [`Training`]: a [`BaseTrainer`] with its datasets, resources and run options.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pavlov_data::Dataset;
use pavlov_tune::session::Checkpoint;
use pavlov_tune::{
    Bundle, Config, Error, ExecutorKind, Restore, Result, RunConfig, TrainableFactory, TrialResult, Tuner,
    storage,
};
use serde_json::Value;

use super::run::{self, TrainingFunction};
use super::stored::{Header, Stored, StoredRunConfig};
use super::{BaseTrainer, ScalingConfig};

/// A trainer with its datasets and options; each argument of the constructor of Ray's trainers is a method. Nothing runs
/// before [`fit`](Training::fit), which trains; [`as_trainable`](Training::as_trainable) is for a [`Tuner`].
///
/// ```no_run
/// # use pavlov_data::Dataset;
/// # use pavlov_train::*;
/// # use pavlov_tune::Result;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Linear { lr: f64 }
/// # impl BaseTrainer for Linear {
/// #     fn training_loop(&mut self, _: &TrainContext) -> Result<()> { Ok(()) }
/// # }
/// # fn example(train: Dataset) -> Result<()> {
/// let result = Linear { lr: 0.1 }.training().datasets([("train", train.clone())]).fit()?;
/// // The process was killed, or the loop failed:
/// let result = Linear::restore(result.path.parent().unwrap())?.datasets([("train", train)]).fit()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it trains when `fit` is called"]
pub struct Training<T> {
    /// The trainer, whose fields are the default settings of trials.
    pub trainer: T,
    scaling_config: ScalingConfig,
    run_config: RunConfig,
    datasets: BTreeMap<String, Dataset>,
    metadata: Value,
    resume_from_checkpoint: Option<Checkpoint>,
    executor: ExecutorKind,
    total_resources: Option<Bundle>,
    restored: Option<(PathBuf, Stored)>,
}

impl<T: BaseTrainer> Training<T> {
    pub(super) fn new(trainer: T) -> Self {
        Training {
            trainer,
            scaling_config: ScalingConfig::default(),
            run_config: RunConfig::default(),
            datasets: BTreeMap::new(),
            metadata: Config::new().into(),
            resume_from_checkpoint: None,
            executor: ExecutorKind::default(),
            total_resources: None,
            restored: None,
        }
    }

    pub(super) fn restore(dir: &Path) -> Result<Self> {
        let dir = match storage::scheme(dir) {
            Some(_) => dir.to_path_buf(),
            None => std::path::absolute(dir).map_err(Error::io("find the absolute path of", dir))?,
        };
        let stored = Stored::read(&dir, &T::name())?;
        Ok(Training {
            trainer: run::trainer(&stored.settings)?,
            scaling_config: stored.scaling_config.clone(),
            run_config: stored.run_config.run_config(),
            datasets: BTreeMap::new(),
            metadata: stored.metadata.clone().into(),
            resume_from_checkpoint: stored.resume_from_checkpoint.clone(),
            executor: stored.executor,
            total_resources: stored.total_resources.clone(),
            restored: Some((dir, stored)),
        })
    }

    /// Sets the workers and resources of the training.
    pub fn scaling_config(self, scaling_config: ScalingConfig) -> Self {
        Training { scaling_config, ..self }
    }

    /// Sets the options of the run: where it writes, when it stops, how failures are handled, which checkpoints are kept.
    ///
    /// The loop decides when to save, so `checkpoint_frequency` and `checkpoint_at_end` are refused. A restored training
    /// stays in its directory, so the name and the storage path of a new `run_config` are ignored.
    pub fn run_config(self, run_config: RunConfig) -> Self {
        Training { run_config, ..self }
    }

    /// Sets the datasets by name; `train` is the one to train on.
    pub fn datasets<N: Into<String>>(self, datasets: impl IntoIterator<Item = (N, Dataset)>) -> Self {
        let datasets = datasets.into_iter().map(|(name, dataset)| (name.into(), dataset)).collect();
        Training { datasets, ..self }
    }

    /// Sets the metadata: a JSON object that the loop can read
    /// ([`session::get_metadata`](pavlov_tune::session::get_metadata)) and that is stored in every checkpoint
    /// ([`Checkpoint::get_metadata`]). A key that the checkpoint itself sets has priority.
    pub fn metadata(self, metadata: impl Into<Value>) -> Self {
        Training { metadata: metadata.into(), ..self }
    }

    /// Sets the checkpoint from which a trial starts if it has no checkpoint of its own. Its directory may be a URL.
    pub fn resume_from_checkpoint(self, checkpoint: Checkpoint) -> Self {
        Training { resume_from_checkpoint: Some(checkpoint), ..self }
    }

    /// Sets whether the training runs in a thread of this process or in a separate process. For a process, `main` must call
    /// [`child_main`](pavlov_tune::child_main) with [`as_trainable`](Training::as_trainable) before [`fit`](Training::fit).
    pub fn executor(self, executor: ExecutorKind) -> Self {
        Training { executor, ..self }
    }

    /// Sets the resources that [`fit`](Training::fit) may use, in place of the machine's cores and GPUs.
    pub fn total_resources(self, total_resources: Bundle) -> Self {
        Training { total_resources: Some(total_resources), ..self }
    }

    /// Makes a trainable for a [`Tuner`].
    ///
    /// The search space can have the trainer's settings, which override those of this training, and fields of
    /// `scaling_config`. Datasets cannot be drawn; draw a setting that selects one instead.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the settings are not a struct with named fields, hold a NaN or have a field
    /// `scaling_config`, if the scaling sets a field that the trainer does not use, if the metadata is not a JSON object, or
    /// if the datasets do not have the names with which a restored training began. Fails if [`ScalingConfig::validate`]
    /// does, or if `resume_from_checkpoint` cannot be found.
    pub fn as_trainable(&self) -> Result<TrainableFactory> {
        Ok(self.trainable(&self.stored()?))
    }

    /// Trains until the loop ends, a stop condition is met or the training is interrupted, and returns the trial's result
    /// with its complete settings as `config`.
    ///
    /// # Errors
    /// Returns [`Error::TrainingFailed`] if the trainer or its loop fails more often than
    /// [`FailureConfig`](pavlov_tune::FailureConfig) allows, and [`Error::Experiment`] if the training is interrupted
    /// before it begins. Fails in the cases of [`as_trainable`](Training::as_trainable) and of [`Tuner::fit`].
    pub fn fit(mut self) -> Result<TrialResult> {
        if self.restored.is_none()
            && let Some(place) = self.run_config.sweep_to_resume()?
        {
            let stored = Stored::read(&place, &T::name())?;
            self.restored = Some((place, stored));
        }
        let stored = self.stored()?;
        let trainable = self.trainable(&stored);
        let config = self.run(&stored).overlay(&Config::new())?;
        let mut tuner = Tuner::new(trainable);
        tuner.run_config = self.run_config;
        tuner.tune_config.executor = self.executor;
        tuner.tune_config.total_resources = self.total_resources;
        let grid = match self.restored {
            None => tuner.fit_with(Some(stored.file()?)),
            Some((dir, before)) => {
                before.run_config.warn_of_what_is_missing(&tuner.run_config);
                let which = Restore { resume_errored: true, ..Restore::default() };
                tuner.restore_with(&dir, which, Some(stored.file()?))
            }
        }?;
        let path = grid.experiment_path().to_path_buf();
        let Some(result) = grid.into_first() else {
            return Err(Error::experiment(&path, "it was interrupted before it began; restore it"));
        };
        match result.error {
            Some(message) => Err(Error::TrainingFailed { trainer: T::name(), path, message }),
            None => Ok(TrialResult { config, ..result }),
        }
    }

    /// Checks the training and returns the part of it that can be stored.
    fn stored(&self) -> Result<Stored> {
        let Value::Object(metadata) = &self.metadata else {
            return Err(Error::config("metadata", &self.metadata, "it must be a JSON object"));
        };
        if let Some((_, before)) = &self.restored {
            before.refuse_other_datasets(self.datasets.keys())?;
        }
        let before = self.restored.as_ref().and_then(|(_, before)| before.resume_from_checkpoint.as_ref());
        let resume_from_checkpoint = match &self.resume_from_checkpoint {
            // A restored training may no longer need this checkpoint, so it is not looked for.
            Some(same) if Some(same) == before => Some(same.clone()),
            given => given.as_ref().map(Checkpoint::with_absolute_paths).transpose()?,
        };
        let stored = Stored {
            header: Header::of(T::name()),
            settings: run::settings(&self.trainer)?,
            scaling_config: self.scaling_config.clone(),
            run_config: StoredRunConfig::of(&self.run_config),
            datasets: self.datasets.keys().cloned().collect(),
            metadata: metadata.clone().into(),
            resume_from_checkpoint,
            executor: self.executor,
            total_resources: self.total_resources.clone(),
        };
        let run = self.run(&stored);
        run.decode(&run.overlay(&Config::new())?)?;
        Ok(stored)
    }

    fn run(&self, stored: &Stored) -> TrainingFunction<T> {
        TrainingFunction {
            settings: stored.settings.clone(),
            scaling_config: stored.scaling_config.clone(),
            datasets: self.datasets.clone(),
            metadata: stored.metadata.clone(),
            resume_from_checkpoint: stored.resume_from_checkpoint.clone(),
            trainer: PhantomData,
        }
    }

    fn trainable(&self, stored: &Stored) -> TrainableFactory {
        let run = Arc::new(self.run(stored));
        let of_trial = run.clone();
        TrainableFactory::from_function(T::name(), run)
            .with_resources_for(move |config| of_trial.resources(config))
    }
}

impl<T: fmt::Debug> fmt::Debug for Training<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Training")
            .field("trainer", &self.trainer)
            .field("scaling_config", &self.scaling_config)
            .field("run_config", &self.run_config)
            .field("datasets", &self.datasets.keys())
            .finish_non_exhaustive()
    }
}
