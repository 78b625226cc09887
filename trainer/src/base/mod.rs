//! The lowest layer: saved state, random streams, statistics, schedules, spaces, errors.

pub(crate) mod array;
mod episode;
mod error;
pub(crate) mod host;
mod notice;
mod profile;
pub mod rng;
pub mod rules;
mod schedule;
mod spaces;
pub mod state;
mod stats;

pub(crate) use episode::AgentReward;
pub use episode::{DEFAULT_POLICY, Episode, PolicyId};
pub(crate) use error::catch;
pub use error::{Error, Result};
pub(crate) use host::{HostTensor, read};
pub use notice::notice;
pub(crate) use notice::{notice_once, notice_unoptimised};
pub use profile::SamplerPerf;
pub(crate) use profile::{Breakdown, Laps};
pub use rng::Stream;
pub(crate) use rng::{StreamState, derive, episode_seed};
pub use schedule::{Piecewise, Schedule, exponential, polynomial};
pub use spaces::Spaces;
pub(crate) use spaces::{channels_first, image};
pub(crate) use state::Array;
pub use state::{State, Weights};
pub use stats::Stats;
pub(crate) use stats::interned;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even a poisoned one: the panic that poisoned it was already turned into an error.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
