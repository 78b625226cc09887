//! Training: the [`Trainer`] trait, the [`WorkerSet`] that samples environments, and execution plans that learn from
//! what was sampled, on libtorch.
//!
//! From the outside in:
//!
//! * [`Trainer`] is what the author of an algorithm writes, on the algorithm's own settings struct. [`Algorithm`] makes
//!   any of them a `Trainable` of the lifecycle crate; [`TrainerExt::build`] hands it to a user.
//! * [`plan`]: a training loop as a lazy std iterator that reads in the order things happen.
//! * [`WorkerSet`]: policies that learn ([`Learners`]), rollout workers on threads behind the transport of [`pool`], and
//!   the book of the run ([`Ledger`]).
//! * [`worker`], [`policy`], [`batch`]: a worker steps many copies of an environment with a [`policy::Policy`], which
//!   sees batches only.
//! * [`learner`]: a network with its parameters, gradients and optimizer. Losses are closures over [`value`]s, which
//!   libtorch computes, or for fully connected networks on the CPU a fused engine in plain memory.
//! * [`models`], [`action_dist`], [`exploration`], [`optim`], [`gae`], [`vtrace`], [`schedule`], [`filter`], [`replay`]: the
//!   other parts that
//!   algorithms are made of. [`prelude`] names what their authors use.
//! * [`rng`]: every random number is a function of the run's seed, what it is for, and an index; never of the worker.
//! * [`state`]: what a checkpoint holds.
//! * [`DatasetExt`]: batches of a dataset as tensors.
//! * [`TorchTrainer`]: several workers that train one model, without reinforcement learning.

mod base;
mod learn;
pub mod plan;
pub mod policy;
pub mod prelude;
pub mod replay;
mod run;
mod sample;
mod torch_train;
mod workers;

pub use base::{
    episode::Episode,
    error::{Error, Result},
    metrics,
    profile::SamplerPerf,
    rng, rules, schedule, state,
};
/// Experience as named columns, and what a plan carries: the rows of every policy.
pub mod batch {
    pub use crate::base::{
        batch::{Column, SampleBatch, env_major, read_f32},
        train_batch::{DEFAULT_POLICY, PolicyId, Source, TrainBatch},
        trajectories::Trajectory,
    };
}
/// Action distributions, and how actions are drawn from them.
pub mod action_dist {
    pub use crate::learn::{
        dist::{ActionDist, Dist},
        draw::ActionRows,
    };
}
pub use learn::{
    exploration, learner, nets as models, optim,
    returns::{gae, vtrace},
    value,
};
/// What [`SampleBatch::array`](batch::SampleBatch::array) returns views of.
pub use ndarray;
pub use plan::learner_info::{LearnerInfo, PolicyInfo};
pub use run::{
    algorithm::{Algorithm, Evaluation},
    builder::{Builder, TrainerExt},
    common::{self, Common},
    memory::Memory,
    settings::{resolve, to_config},
    trainer::Trainer,
    training::Run,
};
pub use sample::{
    callbacks, evaluation, filter,
    session::{Action, Session},
    transforms::{normalize, unsquash},
    worker,
};
pub use torch_train::{
    data::{DatasetExt, Dtypes, TorchBatch, TorchBatches},
    torch_trainer::{TorchTrainer, TorchWorker},
};
pub use workers::{WorkerSet, learners::Learners, ledger::Ledger, transport as pool};
