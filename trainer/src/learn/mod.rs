//! What an algorithm learns with: networks, losses over values, two engines that run them, optimizers, returns.

pub(crate) mod dist;
mod draw;
pub(crate) mod engines;
mod exploration;
mod groups;
pub mod learner;
mod loss;
pub mod nets;
mod noise;
mod optim;
pub mod returns;
mod rows;
mod together;
mod value;

pub use draw::ActionRows;
pub(crate) use exploration::any;
pub use exploration::{ExplorationConfig, per_worker_epsilon};
pub use groups::{Group, Rule};
pub(crate) use groups::{GroupRange, Live};
pub use learner::Learner;
pub(crate) use learner::Moment;
pub use loss::Loss;
pub(crate) use loss::{EPSILON, Join, Stat, explained};
pub(crate) use noise::Noise;
pub use optim::OptimizerConfig;
pub(crate) use rows::About;
pub use rows::Rows;
pub(crate) use together::Together;
pub use value::{OnLibtorch, Value};
