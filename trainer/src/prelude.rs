//! What the author of an algorithm or of a policy writes with.

pub use crate::base::{
    Column, Error, Piecewise, Result, SampleBatch, Schedule, State, Stats, Stream, TrainBatch, Weights,
    env_major, read_f32,
};
pub use crate::learn::dist::{ActionDist, Dist};
pub use crate::learn::engines::{Activation, Report};
pub use crate::learn::nets::{
    ActorCritic, Conv2d, ConvFilters, Critics, CustomModel, Dense, Encoding, Filter, Free, HiddenLayers,
    Init, Initializer, Input, Mlp, ModelConfig, Net, NetBuilder, Padding, PolicySpec, Spaces, Torso,
};
pub use crate::learn::returns::{BatchValues, VTrace, discount_cumsum, vtrace};
pub use crate::learn::{ActionRows, Group, Learner, Loss, OnLibtorch, OptimizerConfig, Rows, Rule, Value};
pub use crate::plan::{
    LearnerInfo, Plan, PlanExt, after_training, broadcast_weights, learner_thread, standardize, standardized,
    sync_weights, train_epochs, train_in_turn, when,
};
pub use crate::policy::{Act, Agent, Learned, NetPolicy, Policies, Policy, PolicyClass, Seen};
pub use crate::run::{BatchMode, Common, Memory, Trainer, TrainerExt};
pub use crate::sample::Fragment;
pub use crate::workers::{Order, WorkerSet};
