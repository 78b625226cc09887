//! The names that authors of algorithms and policies use, for `use pavlov_trainer::prelude::*`.

pub use crate::agents::{Agent, Policies};
pub use crate::experience::TrainBatch;
pub use crate::plan::{
    LearnerInfo, Plan, PlanExt, after_training, broadcast_weights, learner_thread, standardize, standardized,
    standardized_by_sample, sync_weights, train_epochs, train_in_turn, when,
};
pub use crate::policy::{Act, Learned, LossOf, NetPolicy, Over, Overridable, Policy, PolicyClass};
pub use crate::run::{Memory, Trainer, TrainerExt};
pub use crate::settings::{BatchMode, Common};
pub use crate::workers::{Order, WorkerSet};
pub use pavlov_learn::Learner;
pub use pavlov_learn::base::{
    Array, ArrayRef, Device, Error, Kind, Piecewise, Result, Schedule, Spaces, State, Stats, Stream, Weights,
};
pub use pavlov_learn::distributions::{ActionDist, ActionRows, Dist};
pub use pavlov_learn::engines::Report;
pub use pavlov_learn::experience::{
    BatchValues, Column, Fragment, SampleBatch, VTrace, discount_cumsum, env_major, read_f32, vtrace,
};
pub use pavlov_learn::layers::{
    Activation, ConvFilters, Filter, HiddenLayers, Initializer, ModelConfig, Padding,
};
#[cfg(feature = "torch")]
pub use pavlov_learn::loss::OnLibtorch;
pub use pavlov_learn::loss::{Input, Loss, Net, Rows, Seen, Value};
#[cfg(feature = "torch")]
pub use pavlov_learn::nets::TchModule;
pub use pavlov_learn::nets::{
    ActorCritic, Conv2d, Critics, CustomModel, Dense, Free, Init, Mlp, NetBuilder, PolicySpec, Torso,
};
pub use pavlov_learn::params::{Encoding, Group, OptimizerConfig, Rule};
