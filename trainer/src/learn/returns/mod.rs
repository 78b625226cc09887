//! Targets that are computed backwards in time, in plain loops.

pub(crate) mod gae;
mod vtrace;

pub use gae::{Trajectories, advantages, discount_cumsum};
pub use vtrace::{BatchValues, Targets, VTrace, vtrace};
