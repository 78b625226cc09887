//! The names that authors of algorithms and policies use, for `use pavlov_trainer::prelude::*`.

pub use crate::agents::{Agent, Policies};
pub use crate::base::{
    Array, ArrayRef, Device, Error, Kind, Piecewise, Result, Schedule, Spaces, State, Stats, Stream, Weights,
};
pub use crate::experience::{
    BatchValues, Column, Fragment, SampleBatch, TrainBatch, VTrace, discount_cumsum, env_major, read_f32,
    vtrace,
};
pub use crate::learn::Learner;
pub use crate::learn::distributions::{ActionDist, ActionRows, Dist};
pub use crate::learn::engines::Report;
#[cfg(feature = "torch")]
pub use crate::learn::loss::OnLibtorch;
pub use crate::learn::loss::{Input, Loss, Net, Rows, Seen, Value};
pub use crate::learn::nets::{
    ActorCritic, Conv2d, Critics, CustomModel, Dense, Free, Init, Mlp, NetBuilder, PolicySpec, Torso,
};
pub use crate::learn::params::{Encoding, Group, OptimizerConfig, Rule};
pub use crate::plan::{
    LearnerInfo, Plan, PlanExt, after_training, broadcast_weights, learner_thread, standardize, standardized,
    standardized_by_sample, sync_weights, train_epochs, train_in_turn, when,
};
pub use crate::policy::{Act, Learned, NetPolicy, Policy, PolicyClass};
pub use crate::run::{Memory, Trainer, TrainerExt};
pub use crate::settings::{
    Activation, BatchMode, Common, ConvFilters, Filter, HiddenLayers, Initializer, ModelConfig, Padding,
};
pub use crate::workers::{Order, WorkerSet};
