//! All settings with their defaults and rules, and the names that other libraries use for them.

mod batch_arithmetic;
mod cluster;
mod common;
mod evaluation;
mod exploration;
mod goals;
mod input;
mod mapping;
mod multi_agent;
mod noise;
mod other_libraries;
mod own_defaults;
mod replay;
mod validation;

pub use common::{BatchMode, ClipRewards, Common, KEPT_KEYS, OPEN_KEYS, ObservationFilter};
pub use evaluation::{DurationUnit, EvaluationConfig, EvaluationDuration};
pub(crate) use exploration::any;
pub use exploration::{ExplorationConfig, per_worker_epsilon};
pub use goals::GoalColumns;
pub use input::translate_input;
pub use mapping::PolicyMapping;
pub(crate) use mapping::{answer, check};
pub use multi_agent::{CountStepsBy, MultiAgentConfig, ObservationFn, ReplayMode};
pub(crate) use noise::Noise;
pub use other_libraries::{names_elsewhere, synonym, translate};
pub use own_defaults::OverDefaults;
pub use pavlov_learn::layers::{
    Activation, Architecture, ConvFilters, Filter, HiddenLayers, Initializer, ModelConfig, Padding,
};
pub use replay::{GoalSelectionStrategy, OffPolicy, ReplayBufferConfig, ReplayKind};

pub use pavlov_learn::base::{Piecewise, Schedule, exponential, polynomial, rules};
pub use pavlov_processes::{PlacementStrategy, WorkerTransport, Workers};
