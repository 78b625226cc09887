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

mod base;
mod learn;
pub mod plan;
pub mod policy;
pub mod prelude;
pub mod replay;
mod run;
mod sample;
mod torch_train;
pub mod workers;

pub use base::{
    episode::Episode,
    error::{Error, Result},
    profile::SamplerPerf,
    rng, state,
};
pub use learn::{learner, nets as models, returns};
/// What [`SampleBatch::array`](batch::SampleBatch::array) returns views of.
pub use ndarray;
pub use plan::learner_info::{LearnerInfo, PolicyInfo};
pub use run::{
    algorithm::Algorithm,
    builder::{Builder, TrainerExt},
    common::Common,
    gif::write_gif,
    league::{League, LeagueConfig},
    loading::load_session,
    memory::Memory,
    policies_of::policies_of,
    policy_edit::PolicyChange,
    policy_mapping::register_policy_mapping_fn,
    settings::{overlay_known, overlay_what_fits, resolve, to_config, validate},
    trainer::Trainer,
    training::Run,
};
pub use sample::evaluation::Evaluation;
pub use sample::{
    callbacks::{Callbacks, RunHandle, StepView},
    session::{Action, Session},
    transforms::{normalize, unsquash},
};
pub use torch_train::{
    data::{DatasetExt, Dtypes, TorchBatch, TorchBatches},
    torch_trainer::{TorchTrainer, TorchWorker},
};
pub use workers::{Learners, Ledger, WorkerSet};

/// Experience as named columns, and what a plan carries: the rows of every policy.
pub mod batch {
    pub use crate::base::{
        batch::{Column, SampleBatch, env_major, read_f32},
        train_batch::{DEFAULT_POLICY, PolicyId, Source, TrainBatch},
        trajectories::Trajectory,
    };
}

/// Settings that algorithms share, and the rules that validate them.
pub mod settings {
    pub use crate::{
        base::{
            rules,
            schedule::{Piecewise, Schedule, exponential, polynomial},
        },
        learn::exploration::*,
        run::common::*,
        run::multi_agent::{CountStepsBy, MultiAgentConfig, ObservationFn, ReplayMode},
        run::policy_mapping::PolicyMapping,
        run::synonyms::{synonym, translate},
        sample::filter::ObservationFilter,
    };
    pub use pavlov_tune::{PlacementStrategy, WorkerTransport, Workers};
}
