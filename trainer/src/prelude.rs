//! What the author of an algorithm or of a policy writes with.

pub use crate::{
    LearnerInfo, WorkerSet,
    base::{
        batch::{Column, SampleBatch, env_major, read_f32},
        error::{Error, Result},
        rng::Stream,
        schedule::{Piecewise, scheduled},
        state::{State, Weights},
        train_batch::TrainBatch,
    },
    learn::{
        dist::{ActionDist, ActionRows},
        learner::{Learner, Loss, Report, Rows},
        nets::{Activation, Free, Init, Initializer, ModelConfig, NetBuilder, Node, Outputs},
        optim::OptimizerConfig,
        returns::gae::discount_cumsum,
        value::Value,
    },
    plan::{Plan, PlanExt, after_training, standardize, sync_weights, train_epochs, when},
    policy::{ActInput, ActOutput, Fragment, Learned, Policy, PolicyClass, PolicySpec, Spaces, Stats},
    run::{
        builder::TrainerExt,
        common::{BatchMode, Common},
        trainer::Trainer,
    },
};
