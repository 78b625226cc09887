//! Collective operations of the workers of one training run, such as sums over gradients and copies of weights.
//!
//! [`Collective`] is the contract; [`SocketCollective`] implements it for processes on CPUs. There is no implementation
//! for GPUs yet.

use std::fmt;

use crate::Result;

mod sockets;
mod transfer;
mod wire;

pub use sockets::SocketCollective;
pub use sockets::sockets;

/// How [`all_reduce`](Collective::all_reduce) combines the values of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Sum of the values of all workers.
    Sum,
    /// Sum of the values of all workers, divided by the number of workers.
    Mean,
}

/// Collective operations: calls that all workers of a training run make together.
///
/// # Contract
///
/// * All workers make the same calls in the same order, with the same number of values. A call waits until the others make
///   it as well. If the calls of two workers differ, both get an error that names both calls.
/// * Results are equal bit for bit on all workers and depend only on the values: each element is the sum
///   `((x0 + x1) + x2) + ...` in the order of ranks.
/// * When a worker ends, for any reason, every call of the others that needs it fails at once with
///   [`Error::WorkerLost`](crate::Error::WorkerLost), even a call that already waits. No call waits for ever: if a
///   live worker does not call within half an hour, the call fails.
/// * After an error the collective cannot be used any more: each later call fails, also on the other workers. The values
///   after an error are unspecified.
/// * With a single worker nothing is sent and no value changes.
pub trait Collective: Send + Sync + fmt::Debug {
    /// Returns this worker's number, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of workers.
    fn world_size(&self) -> usize;

    /// Replaces each value by the sum or the mean (`op`) of all workers' values at the same index.
    ///
    /// # Errors
    /// Returns [`Error::WorkerLost`](crate::Error::WorkerLost) if a worker has ended. Fails if another worker makes a
    /// different call, or no call for half an hour, and after any earlier error.
    fn all_reduce(&self, values: &mut [f32], op: ReduceOp) -> Result<()>;

    /// Replaces each value by the sum or the mean of all workers' values, as [`all_reduce`](Collective::all_reduce) does, in
    /// double precision.
    ///
    /// # Errors
    /// Fails in the same cases as [`all_reduce`](Collective::all_reduce).
    fn all_reduce_f64(&self, values: &mut [f64], op: ReduceOp) -> Result<()>;

    /// Replaces the bytes of every worker by the bytes of worker `root`.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) if there is no worker `root`. Fails otherwise in the same
    /// cases as [`all_reduce`](Collective::all_reduce).
    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()>;

    /// Returns the bytes of all workers, by rank; workers may have different numbers of bytes.
    ///
    /// # Errors
    /// Fails in the same cases as [`all_reduce`](Collective::all_reduce).
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Waits until all workers have called `barrier`.
    ///
    /// # Errors
    /// Fails in the same cases as [`all_reduce`](Collective::all_reduce).
    fn barrier(&self) -> Result<()>;
}
