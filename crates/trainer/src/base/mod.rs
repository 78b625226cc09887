//! The lowest layer: saved state, random streams, statistics, schedules, spaces, errors.

mod array;
mod device;
mod elsewhere;
mod episode;
mod error;
mod kind;
mod lent;
pub(crate) mod libtorch;
mod memory;
mod notice;
pub(crate) mod parquet;
mod profile;
pub mod rng;
mod rows;
pub mod rules;
mod schedule;
mod spaces;
pub mod state;
mod stats;
#[cfg(feature = "torch")]
pub(crate) mod torch;
#[cfg_attr(not(feature = "torch"), path = "no_unread.rs")]
mod unread;

pub use array::Array;
pub use device::Device;
pub(crate) use elsewhere::Elsewhere;
pub(crate) use episode::AgentReward;
pub(crate) use episode::part_of;
pub use episode::{DEFAULT_POLICY, Episode, PolicyId};
pub(crate) use error::catch;
pub use error::{Error, Result};
pub(crate) use kind::MAX_AXES;
pub use kind::{Kind, Scalar};
pub use lent::ArrayRef;
pub use notice::notice;
pub(crate) use notice::{notice_if_slow, notice_once, notice_unoptimised};
pub use profile::SamplerPerf;
pub(crate) use profile::{Breakdown, Laps};
pub use rng::Stream;
pub(crate) use rng::{StreamState, derive, episode_seed};
pub(crate) use rows::HostRows;
pub use schedule::{Piecewise, Schedule, exponential, polynomial};
pub use spaces::Spaces;
pub(crate) use spaces::{channels_first, image};
pub use state::{State, Weights};
pub use stats::Stats;
pub(crate) use stats::interned;
pub(crate) use unread::Unread;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even a poisoned one: the panic that poisoned it was already turned into an error.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
