//! Training: the [`Trainer`] trait, the [`WorkerSet`] that samples environments, and execution plans that learn from
//! what was sampled, on libtorch.
//!
//! From the outside in:
//!
//! * [`Trainer`] is what the author of an algorithm writes, on the algorithm's own settings struct. [`Algorithm`] makes
//!   any of them a `Trainable` of the lifecycle crate; [`TrainerExt::build`] hands it to a user. [`settings`] has what all
//!   algorithms share.
//! * [`plan`]: a training loop as a lazy std iterator that reads in the order things happen.
//! * [`WorkerSet`]: policies that learn ([`Learners`]), rollout workers on threads, and the book of the run ([`Ledger`]).
//!   [`workers`] has what is sent between them.
//! * [`policy`]: what sees batches of observations, acts and learns.
//! * [`learner`]: a network with its parameters, gradients and optimizer. Losses are closures over [`learner::Value`]s,
//!   which libtorch computes, or for fully connected and recurrent networks on the CPU a fused engine in plain memory.
//!   [`models`] are the networks.
//! * [`batch`], [`returns`], [`replay`]: experience, advantages, the store of experience.
//! * [`rng`]: every random number is a function of the run's seed, what it is for, and an index; never of the worker.
//! * [`state`]: what a checkpoint holds.
//! * [`DatasetExt`]: batches of a dataset as tensors.
//! * [`TorchTrainer`]: several workers that train one model, without reinforcement learning.
//!
//! [`prelude`] names what authors use.

pub mod agents;
mod base;
mod experience;
mod learn;
pub mod plan;
pub mod policy;
pub mod prelude;
pub mod replay;
mod run;
mod sample;
pub mod settings;
mod torch_train;
pub mod workers;

pub use agents::{PolicyChange, register_policy_mapping_fn};
pub use base::{Episode, Error, Result, SamplerPerf, notice};
pub use plan::{LearnerInfo, PolicyInfo};
pub use run::{
    Algorithm, Builder, League, LeagueConfig, Memory, Run, Trainer, TrainerExt, load_session, overlay_known,
    overlay_what_fits, policies_of, resolve, to_config, validate, write_gif,
};
pub use sample::{Action, Callbacks, Evaluation, RunHandle, Session, StepView, normalize, unsquash};
pub use settings::Common;
pub use torch_train::{DatasetExt, Dtypes, TorchBatch, TorchBatches, TorchTrainer, TorchWorker};
pub use workers::{Learners, Ledger, WorkerSet};

pub use crate::base::{rng, state};
pub use crate::learn::{learner, nets as models};
/// What [`SampleBatch::array`](batch::SampleBatch::array) returns views of.
pub use ndarray;

/// Experience as named columns, and what a plan carries: the rows of every policy.
pub mod batch {
    pub use crate::base::{DEFAULT_POLICY, PolicyId};
    pub use crate::experience::{Column, SampleBatch, Source, TrainBatch, Trajectory, env_major, read_f32};
}

/// Advantages and targets: GAE and V-trace.
pub mod returns {
    pub use crate::experience::{
        BatchValues, Targets, Trajectories, VTrace, advantages, discount_cumsum, vtrace,
    };
}
