//! Training loops with datasets, with the names of Ray Train: [`BaseTrainer`] is one loop, [`DataParallelTrainer`] is one
//! loop on several workers, and a [`Training`] runs either of them as a sweep of one trial. Nothing here knows libtorch.
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

mod collective;
mod data_parallel;
mod run;
mod scaling;
mod stored;
mod training;

pub use collective::{Collective, ReduceOp, SocketCollective};
pub use data_parallel::{DataParallelTrainer, TrainLoop, WorkerContext};
pub use scaling::ScalingConfig;
pub use training::Training;

/// A training loop, written ON its settings: the fields are what a sweep may change, so they are serialised; state that
/// `setup` makes is a field with `#[serde(skip)]`.
///
/// What trains is never the value that [`training`](BaseTrainer::training) was called on: each trial decodes one of its
/// own from the settings, in the thread or process where it runs, and calls `setup`, `preprocess_datasets` and
/// `training_loop` in this order. So making a trainer costs nothing, and heavy work belongs into `setup`.
///
/// A trial that is tried again or restored begins with `setup` as well; what the loop has to go on from is
/// [`TrainContext::checkpoint`].
pub trait BaseTrainer: Serialize + DeserializeOwned + Send + 'static {
    /// The fields of [`ScalingConfig`] that the loop uses; others are refused, so that none is silently ignored. A
    /// loop alone has no workers.
    const SCALING_CONFIG_ALLOWED_KEYS: &'static [&'static str] = &["trainer_resources"];

    /// Dotted names of settings under which a sweep may set names that they do not have yet: maps.
    const OPEN_KEYS: &'static [&'static str] = &[];

    /// The name of the trainer in experiments, checkpoints and trial processes.
    fn name() -> String {
        TrainableFactory::name_of::<Self>()
    }

    /// Does the heavy work before training, where the trial runs.
    ///
    /// # Errors
    /// An error fails the trial.
    fn setup(&mut self, context: &TrainContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Replaces `context.datasets` by what the loop is to see.
    ///
    /// # Errors
    /// An error fails the trial.
    fn preprocess_datasets(&mut self, context: &mut TrainContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Trains, and reports through [`session::report`](pavlov_tune::session::report).
    ///
    /// # Errors
    /// An error fails the trial. The error of `session::report` that ends the trial, [`Error::TrialStopped`], is handed
    /// up and fails nothing.
    fn training_loop(&mut self, context: &TrainContext) -> Result<()>;

    /// A training with these settings and nothing else: the arguments of Ray's constructor are methods of it.
    fn training(self) -> Training<Self> {
        Training::new(self)
    }

    /// The training whose experiment is `dir`, as it was begun; its next [`fit`](Training::fit) goes on in place from the
    /// newest checkpoint, also if it had failed.
    ///
    /// Datasets must be given again, and what of the [`RunConfig`](pavlov_tune::RunConfig) is code: stop conditions and
    /// callbacks. Everything else may be.
    ///
    /// # Errors
    /// Fails in the same cases as [`can_restore`](BaseTrainer::can_restore), and if the trainer cannot read the stored
    /// settings, for instance because it has lost one of them.
    fn restore(dir: impl AsRef<Path>) -> Result<Training<Self>> {
        Training::restore(dir.as_ref())
    }

    /// Whether there is a training of this trainer to [`restore`](BaseTrainer::restore) in `dir`; the error says why not.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if `dir` holds no training, one of another trainer or of another version of the
    /// format, a damaged one, or one that was killed before it began. Returns [`Error::Io`] or [`Error::Storage`] if
    /// `dir` cannot be read.
    fn can_restore(dir: impl AsRef<Path>) -> Result<()> {
        stored::Stored::read(dir.as_ref(), &Self::name()).map(drop)
    }
}

/// What a training loop is given: datasets, metadata, and the checkpoint to continue from.
#[derive(Clone, Debug, Default)]
pub struct TrainContext {
    /// The datasets by name; `train` is the one to train on.
    pub datasets: BTreeMap<String, Dataset>,
    /// The metadata of the training, which every checkpoint holds.
    pub metadata: Config,
    /// The checkpoint to continue from: the newest of this trial, else `resume_from_checkpoint`.
    pub checkpoint: Option<Checkpoint>,
    /// The workers and resources that the trial has. They may differ from those of the training: a sweep may have drawn
    /// them, and a scheduler may have changed them.
    pub scaling_config: ScalingConfig,
}

impl TrainContext {
    /// Returns the dataset of that name.
    ///
    /// # Errors
    /// Returns [`Error::Config`] with the names that exist if there is no dataset of that name.
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
