//! What the author of an algorithm or of a policy writes with.

pub use crate::{
    LearnerInfo, WorkerSet,
    action_dist::{ActionDist, ActionRows},
    batch::{Column, SampleBatch, env_major, read_f32},
    builder::TrainerExt,
    common::{BatchMode, Common},
    error::{Error, Result},
    gae::discount_cumsum,
    learner::{Learner, Loss, Report, Rows},
    models::{Activation, Free, Init, Initializer, ModelConfig, NetBuilder, Node, Outputs},
    optim::OptimizerConfig,
    plan::{Plan, PlanExt, standardize, sync_weights, train_epochs},
    policy::{ActInput, ActOutput, Fragment, Learned, Policy, PolicyClass, PolicySpec, Spaces, Stats},
    rng::Stream,
    schedule::{Piecewise, scheduled},
    state::{State, Weights},
    trainer::Trainer,
    value::Value,
};
