//! What everything else stands on: experience as columns, saved state, random streams, statistics, errors.

pub(crate) mod array;
mod batch;
mod cuts;
mod episode;
mod error;
pub(crate) mod host;
mod metrics;
mod notice;
mod profile;
pub mod rng;
pub mod rules;
mod schedule;
pub mod state;
mod stats;
mod train_batch;
mod trajectories;

pub(crate) use batch::Selection;
pub use batch::{Column, SampleBatch, env_major, read_f32};
pub(crate) use episode::AgentReward;
pub use episode::Episode;
pub(crate) use error::catch;
pub use error::{Error, Result};
pub(crate) use host::{HostTensor, read};
pub use metrics::{Counters, PolicyCounters};
pub(crate) use metrics::{EpisodeWindow, Sizes, Timers, summarize};
pub(crate) use notice::{notice, notice_once, notice_unoptimised};
pub use profile::SamplerPerf;
pub(crate) use profile::{Breakdown, Laps};
pub use rng::Stream;
pub(crate) use rng::{StreamState, derive, episode_seed};
pub use schedule::{Piecewise, Schedule, exponential, polynomial};
pub(crate) use state::Array;
pub use state::{State, Weights};
pub use stats::Stats;
pub(crate) use stats::interned;
pub use train_batch::{DEFAULT_POLICY, PolicyId, Source, TrainBatch};
pub use trajectories::Trajectory;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic elsewhere has already become an error of its own.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
