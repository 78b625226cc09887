//! What an algorithm learns with: networks, losses over values, two engines that run them, optimizers, returns.

pub mod dist;
pub(crate) mod engines;
pub mod exploration;
pub mod learner;
pub mod nets;
pub mod optim;
pub(crate) mod returns;
mod rows;
pub mod value;
