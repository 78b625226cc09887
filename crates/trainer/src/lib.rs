//! Training on libtorch: the [`Trainer`] trait, the [`WorkerSet`] that samples environments, and execution plans that
//! learn from the samples.
//!
//! From the outside in:
//!
//! * [`Trainer`] is the trait that the author of an algorithm implements, on the algorithm's own settings struct.
//!   [`Algorithm`] makes each of them a `Trainable` of `pavlov_tune`; [`TrainerExt::build`] makes one ready to train.
//!   [`settings`] has the settings that all algorithms share.
//! * [`plan`]: a training loop as a lazy std iterator, which reads in the order of execution.
//! * [`WorkerSet`]: policies that learn ([`Learners`]), rollout workers on threads, processes or a Ray cluster, and
//!   the counters of a run ([`Ledger`]). [`workers`] has the transports and the requests and replies that they carry.
//! * [`policy`]: a policy chooses actions for batches of observations, and learns from their results.
//! * [`learner`]: a network with its parameters, gradients and optimizer. Losses are closures over
//!   [`learner::Value`]s, computed by libtorch or, for fully connected and recurrent networks on the CPU, by a fused
//!   engine in plain memory. [`models`] has the networks. Both are those of the crate `pavlov-learn`, as are the names of
//!   [`batch`], [`returns`], [`rng`] and [`state`].
//! * [`batch`], [`returns`], [`replay`]: experience, advantages, and the replay buffer.
//! * [`rng`]: every random number is a function of the run's seed, its purpose and an index; never of the worker.
//! * [`state`]: the values and arrays that a checkpoint stores.
//!
//! [`prelude`] has the names that authors of algorithms use.

pub mod agents;
mod base;
mod experience;
mod export;
pub mod plan;
pub mod policy;
pub mod prelude;
pub mod replay;
mod run;
mod sample;
pub mod settings;
pub mod workers;

pub use agents::{PolicyChange, register_policy_mapping_fn};
pub use base::{Episode, SamplerPerf, notice};
pub use export::{Agreement, Pack, PackFacts, PolicyFormat, Signature};
pub use plan::{LearnerInfo, PolicyInfo};
pub use run::{
    Algorithm, Builder, Ending, Memory, Run, Snapshot, Trainer, TrainerExt, load_session, load_session_with,
    notices, overlay_known, overlay_what_fits, policies_of, refuse_illegal_moves,
    refuse_large_image_in_parts, resolve, to_config, validate, write_gif,
};
pub use sample::{
    Action, Callbacks, Evaluation, Loaded, Observations, RunHandle, Session, StepView, normalize, unsquash,
};
pub use settings::Common;
pub use workers::{Learners, Ledger, WorkerSet};

/// The crate `ndarray`, whose array views [`SampleBatch::array`](batch::SampleBatch::array) returns.
pub use ndarray;
pub use pavlov_learn::base::{Array, ArrayRef, Device, Error, Kind, Result, Scalar, rng, state};
pub use pavlov_learn::{learner, nets as models};
#[cfg(feature = "torch")]
/// tch, libtorch's Rust interface, in the version that pavlov uses.
pub use tch as torch;

/// Experience: rows as named columns ([`SampleBatch`](batch::SampleBatch)), and the rows of every policy
/// ([`TrainBatch`](batch::TrainBatch)).
pub mod batch {
    pub use crate::base::{DEFAULT_POLICY, PolicyId};
    pub use crate::experience::{Source, TrainBatch};
    pub use pavlov_learn::experience::{Column, SampleBatch, Trajectory, env_major, read_f32};
}

/// Advantages and targets: GAE and V-trace.
pub mod returns {
    pub use pavlov_learn::experience::{
        BatchValues, Targets, Trajectories, VTrace, advantages, discount_cumsum, vtrace,
    };
}
