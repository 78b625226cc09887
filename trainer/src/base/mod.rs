//! What everything else stands on: experience as columns, saved state, random streams, statistics, errors.

pub(crate) mod array;
pub(crate) mod batch;
mod cuts;
pub(crate) mod episode;
pub(crate) mod error;
pub(crate) mod host;
pub(crate) mod metrics;
pub(crate) mod notice;
pub(crate) mod profile;
pub mod rng;
pub mod rules;
pub(crate) mod schedule;
pub mod state;
pub(crate) mod stats;
pub(crate) mod train_batch;
pub(crate) mod trajectories;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic elsewhere has already become an error of its own.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
