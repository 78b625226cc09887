//! What the author of an algorithm or of a policy writes with.

pub use crate::{
    LearnerInfo, WorkerSet,
    base::{
        batch::{Column, SampleBatch, env_major, read_f32},
        error::{Error, Result},
        rng::Stream,
        schedule::{Piecewise, Schedule},
        state::{State, Weights},
        train_batch::TrainBatch,
    },
    learn::{
        dist::{ActionDist, Dist},
        draw::ActionRows,
        learner::{Learner, Loss, Report, Rows},
        nets::{
            Activation, ActorCritic, Conv2d, ConvFilters, Critics, CustomModel, Dense, Encoding, Filter,
            Free, Group, HiddenLayers, Init, Initializer, Input, Mlp, ModelConfig, Net, NetBuilder,
            OnLibtorch, Padding, Rule, Torso,
        },
        optim::OptimizerConfig,
        returns::{
            gae::discount_cumsum,
            vtrace::{BatchValues, VTrace, vtrace},
        },
        value::Value,
    },
    plan::{
        Order, Plan, PlanExt, after_training, broadcast_weights, learner_thread, standardize, standardized,
        sync_weights, train_epochs, train_in_turn, when,
    },
    policy::{
        Act, Agent, Fragment, Learned, NetPolicy, Policies, Policy, PolicyClass, PolicySpec, Seen, Spaces,
        Stats,
    },
    run::{
        builder::TrainerExt,
        common::{BatchMode, Common},
        memory::Memory,
        trainer::Trainer,
    },
};
