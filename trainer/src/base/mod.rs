//! What everything else stands on: experience as columns, saved state, random streams, statistics, errors.

pub mod batch;
pub(crate) mod episode;
pub(crate) mod error;
pub(crate) mod host;
pub mod metrics;
pub(crate) mod profile;
pub mod rng;
pub mod rules;
pub mod schedule;
pub mod state;
pub(crate) mod stats;
