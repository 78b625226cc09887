//! What an algorithm learns with: networks, losses over values, two engines that run them, optimizers, returns.

pub(crate) mod dist;
pub(crate) mod draw;
pub(crate) mod engines;
pub(crate) mod exploration;
pub(crate) mod groups;
pub mod learner;
pub(crate) mod loss;
pub mod nets;
pub(crate) mod noise;
pub(crate) mod optim;
pub mod returns;
pub(crate) mod rows;
pub(crate) mod together;
pub(crate) mod value;
