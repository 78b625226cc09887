//! Targets that are computed backwards in time, in plain loops.

pub mod gae;
pub mod vtrace;
