//! Training: the [`Trainer`] trait, the [`WorkerSet`] that samples environments, and execution plans that learn from
//! what was sampled, on libtorch.
//!
//! From the outside in:
//!
//! * [`Trainer`] is what the author of an algorithm writes, on the algorithm's own settings struct. [`Algorithm`] makes
//!   any of them a `Trainable` of the lifecycle crate; [`TrainerExt::build`] hands it to a user.
//! * [`plan`]: a training loop as a lazy std iterator that reads in the order things happen.
//! * [`WorkerSet`]: one local worker that learns, and rollout workers on threads behind the transport of [`pool`].
//! * [`worker`], [`policy`], [`batch`]: a worker steps many copies of an environment with a [`policy::Policy`], which
//!   sees batches only.
//! * [`learner`]: a network with its parameters, gradients and optimizer. Losses are closures over [`value`]s, which
//!   libtorch computes, or for fully connected networks on the CPU a fused engine in plain memory.
//! * [`models`], [`action_dist`], [`exploration`], [`optim`], [`schedule`], [`filter`], [`replay`]: the other parts that
//!   algorithms are made of. [`prelude`] names what their authors use.
//! * [`rng`]: every random number is a function of the run's seed, what it is for, and an index; never of the worker.
//! * [`state`]: what a checkpoint holds.
//! * [`DatasetExt`]: batches of a dataset as tensors.
//! * [`TorchTrainer`]: several workers that train one model, without reinforcement learning.

pub mod action_dist;
mod algorithm;
pub mod batch;
pub mod callbacks;
pub mod common;
mod complete_episodes;
mod data;
mod episode;
mod error;
pub mod evaluation;
pub mod exploration;
pub mod filter;
mod fragment;
pub mod gae;
mod host;
mod kernels;
pub mod learner;
mod learner_info;
pub mod metrics;
pub mod models;
pub mod nstep;
pub mod optim;
pub mod plan;
pub mod policy;
pub mod pool;
pub mod prelude;
mod profile;
pub mod replay;
pub mod rng;
mod run;
mod sampler;
pub mod schedule;
pub mod state;
mod stats;
mod torch_trainer;
mod trainer;
pub mod value;
pub mod worker;
mod worker_set;

pub use algorithm::{Action, Algorithm, Builder, Evaluation, resolve, to_config};
pub use common::Common;
pub use data::{DatasetExt, Dtypes, TorchBatch, TorchBatches};
pub use episode::Episode;
pub use error::{Error, Result};
pub use learner_info::LearnerInfo;
pub use profile::SamplerPerf;
pub use run::Run;
pub use sampler::{normalize, unsquash};
pub use torch_trainer::{TorchTrainer, TorchWorker};
pub use trainer::{Trainer, TrainerExt};
pub use worker_set::WorkerSet;
