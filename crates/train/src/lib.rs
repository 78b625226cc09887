//! Training loops over datasets, with the names of Ray Train. [`BaseTrainer`] is one loop, [`DataParallelTrainer`] is one
//! loop on several workers, and a [`Training`] runs either of them as a sweep of one trial. This crate does not need
//! libtorch.
//!
//! ```no_run
//! use pavlov_tune::session::{self, Checkpoint};
//! use pavlov_train::{BaseTrainer, TrainContext};
//! use pavlov_tune::Result;
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Halving { x: f64, epochs: u64 }
//!
//! impl BaseTrainer for Halving {
//!     fn training_loop(&mut self, context: &TrainContext) -> Result<()> {
//!         let state = context.checkpoint.as_ref().map(Checkpoint::to_dict).transpose()?;
//!         let (mut x, done) = state.map_or((self.x, 0), |state| {
//!             (state["x"].as_f64().unwrap_or_default(), state["epoch"].as_u64().unwrap_or_default())
//!         });
//!         for epoch in done + 1..=self.epochs {
//!             x /= 2.0;
//!             let checkpoint = Checkpoint::from_dict(json!({"x": x, "epoch": epoch}));
//!             session::report(json!({"x": x}), Some(checkpoint))?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let result = Halving { x: 1.0, epochs: 10 }.training().metadata(json!({"by": "me"})).fit()?;
//! println!("{:?} {:?}", result.metrics, result.checkpoint);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use pavlov_data::Dataset;
use pavlov_tune::session::Checkpoint;
use pavlov_tune::{Config, Error, Result, TrainableFactory};
use serde::Serialize;
use serde::de::DeserializeOwned;

mod data_parallel;
mod run;
mod scaling;
mod stored;
mod training;

pub use data_parallel::{DataParallelTrainer, TrainLoop, WorkerContext};
pub use pavlov_processes::{Collective, ReduceOp, SocketCollective};
pub use scaling::ScalingConfig;
pub use training::Training;

/// A training loop, implemented for the struct of its settings.
///
/// The fields are the settings that a sweep may change, so they are serialized. State that `setup` makes is a field with
/// `#[serde(skip)]`.
///
/// [`training`](BaseTrainer::training) takes only the settings of its `self`. Each trial decodes a value of its own
/// from the settings, in the thread or process where it runs, and calls `setup`, `preprocess_datasets` and
/// `training_loop` in this order. Making a trainer should cost nothing; heavy work belongs in `setup`.
///
/// A trial that is tried again or restored begins with `setup` as well; the loop continues from
/// [`TrainContext::checkpoint`].
pub trait BaseTrainer: Serialize + DeserializeOwned + Send + 'static {
    /// Fields of [`ScalingConfig`] that the loop uses; other fields are refused, so that none is silently ignored. By
    /// default a loop has no workers.
    const SCALING_CONFIG_ALLOWED_KEYS: &'static [&'static str] = &["trainer_resources"];

    /// Dotted names of the settings that are maps: a sweep may add keys to them.
    const OPEN_KEYS: &'static [&'static str] = &[];

    /// Returns the name of the trainer in experiments, checkpoints and trial processes; by default the name of the type.
    fn name() -> String {
        TrainableFactory::name_of::<Self>()
    }

    /// Does heavy work before training, in the thread or process of the trial. By default does nothing.
    ///
    /// # Errors
    /// An error fails the trial.
    fn setup(&mut self, context: &TrainContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Transforms the datasets before training, by changing `context.datasets`. By default does nothing.
    ///
    /// # Errors
    /// An error fails the trial.
    fn preprocess_datasets(&mut self, context: &mut TrainContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Trains, and reports metrics and checkpoints through [`session::report`](pavlov_tune::session::report).
    ///
    /// # Errors
    /// An error fails the trial, except [`Error::TrialStopped`]: `session::report` returns it to end the trial, and the loop
    /// passes it on.
    fn training_loop(&mut self, context: &TrainContext) -> Result<()>;

    /// Makes a [`Training`] with these settings; its methods are the arguments of the constructor of Ray's trainers.
    fn training(self) -> Training<Self> {
        Training::new(self)
    }

    /// Restores the training whose experiment is in `dir`; [`fit`](Training::fit) then continues in place from the newest
    /// checkpoint, even if the training had failed.
    ///
    /// The datasets must be given again, and so must the stop conditions and callbacks of the
    /// [`RunConfig`](pavlov_tune::RunConfig), which are code. Everything else is restored, and may be given again.
    ///
    /// # Errors
    /// Fails in the same cases as [`can_restore`](BaseTrainer::can_restore), and if the stored settings cannot be decoded,
    /// for instance because the struct has lost a field.
    fn restore(dir: impl AsRef<Path>) -> Result<Training<Self>> {
        Training::restore(dir.as_ref())
    }

    /// Checks that `dir` holds a training of this trainer that [`restore`](BaseTrainer::restore) can read.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if `dir` holds no training, or if the training belongs to another trainer, has another
    /// version of the format, is damaged, or was killed before it began. Returns [`Error::Io`] or [`Error::Storage`] if
    /// `dir` cannot be read.
    fn can_restore(dir: impl AsRef<Path>) -> Result<()> {
        stored::Stored::read(dir.as_ref(), &Self::name()).map(drop)
    }
}

/// Inputs of a training loop: datasets, metadata, and the checkpoint to continue from.
#[derive(Clone, Debug, Default)]
pub struct TrainContext {
    /// The datasets by name; `train` is the one to train on.
    pub datasets: BTreeMap<String, Dataset>,
    /// The metadata of the training, which every checkpoint contains.
    pub metadata: Config,
    /// The checkpoint to continue from: the newest one of this trial, else `resume_from_checkpoint`, else `None`.
    pub checkpoint: Option<Checkpoint>,
    /// The workers and resources of the trial. They may differ from those of the training, because a sweep may draw them and
    /// a scheduler may change them.
    pub scaling_config: ScalingConfig,
}

impl TrainContext {
    /// Returns the dataset `name`.
    ///
    /// # Errors
    /// Returns [`Error::Config`], which lists the existing names, if there is no dataset `name`.
    pub fn dataset(&self, name: &str) -> Result<&Dataset> {
        self.datasets.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.datasets.keys().map(String::as_str).collect();
            Error::config("datasets", format!("{known:?}"), format!("the loop asks for {name:?}"))
        })
    }
}

/// The programs of the README, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
