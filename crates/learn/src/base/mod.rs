//! The lowest layer: arrays and kinds of numbers, saved state, random streams, statistics, schedules, spaces, rules of
//! settings, errors.

mod array;
mod device;
mod elsewhere;
mod error;
mod kind;
mod lent;
pub mod libtorch;
mod memory;
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
pub use error::{Error, Result, catch};
pub use kind::MAX_AXES;
pub use kind::{Kind, Scalar};
pub use lent::ArrayRef;
pub use rng::{Stream, StreamState, derive, episode_seed};
pub use rows::HostRows;
pub use schedule::{Piecewise, Schedule, exponential, polynomial};
pub use spaces::{ImagePart, Spaces, channels_first, has_all_bytes, image, images_in_parts};
pub use state::{State, Weights};
pub use stats::{Stats, interned};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even a poisoned one: the panic that poisoned it was already turned into an error.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
