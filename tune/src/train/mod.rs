//! [`BaseTrainer`]: a training loop with datasets, run as a sweep of one trial.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::data::Dataset;
use crate::session::Checkpoint;
use crate::{Config, Error, Result};

mod collective;

pub use collective::{Collective, ReduceOp, SocketCollective};

/// A training loop, written ON its settings: the fields are what a sweep may change, so they are serialised; state that
/// `setup` makes is a field with `#[serde(skip)]`.
pub trait BaseTrainer: Serialize + DeserializeOwned + Send + 'static {
    /// What it is called in experiments and trial processes.
    fn name() -> String {
        let full = std::any::type_name::<Self>();
        let plain = full.split('<').next().unwrap_or(full);
        plain.rsplit("::").next().unwrap_or(plain).to_string()
    }

    /// Heavy work before training, where the trial runs.
    ///
    /// # Errors
    /// They fail the trial.
    fn setup(&mut self, context: &TrainContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Replaces `context.datasets` by what the loop is to see.
    ///
    /// # Errors
    /// They fail the trial.
    fn preprocess_datasets(&mut self, context: &mut TrainContext) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Trains, and reports through [`session::report`](crate::session::report).
    ///
    /// # Errors
    /// They fail the trial.
    fn training_loop(&mut self, context: &TrainContext) -> Result<()>;
}

/// What a training loop was given.
#[derive(Clone, Debug, Default)]
pub struct TrainContext {
    /// By name; `train` is the one to train on.
    pub datasets: BTreeMap<String, Dataset>,
    /// Goes into every checkpoint.
    pub metadata: Config,
    /// State to continue from.
    pub checkpoint: Option<Checkpoint>,
}

impl TrainContext {
    /// The dataset of that name.
    ///
    /// # Errors
    /// There is none; lists those there are.
    pub fn dataset(&self, name: &str) -> Result<&Dataset> {
        self.datasets.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.datasets.keys().map(String::as_str).collect();
            Error::config("datasets", format!("{known:?}"), format!("the loop asks for {name:?}"))
        })
    }
}
