//! What the workers of one training run do together: sums over gradients, copies of weights, waiting for each other.
//!
//! [`Collective`] is the contract; [`SocketCollective`] keeps it for processes, on CPUs. GPUs would bring an
//! implementation of their own.

use std::fmt;

use pavlov_tune::Result;

mod sockets;
mod wire;

pub use sockets::SocketCollective;
pub(super) use sockets::sockets;

/// How [`all_reduce`](Collective::all_reduce) combines the values of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their sum, divided by the number of workers.
    Mean,
}

/// Calls that all workers make together.
///
/// # Contract
///
/// * All workers make the same calls, with as many values, in the same order. A call waits until the others make it as
///   well. Where calls differ, both sides get an error that names both.
/// * Results are equal bit for bit on all workers, and depend on nothing but the values: each element is the sum
///   `((x0 + x1) + x2) + ...` in the order of ranks.
/// * When a worker ends, however it ends, every call of the others that needs it is
///   [`Error::WorkerLost`](pavlov_tune::Error::WorkerLost) at once, also one that already waits. Nothing waits for ever: a
///   worker that lives but does not call is waited for half an hour.
/// * After an error the collective is of no more use: each later call is an error, and the others' calls are as well.
///   What the values are after an error is not said.
/// * In a world of one nothing is sent and nothing changes.
pub trait Collective: Send + Sync + fmt::Debug {
    /// This worker's number, from 0.
    fn rank(&self) -> usize;

    /// How many workers there are.
    fn world_size(&self) -> usize;

    /// Replaces each value by what `op` makes of all workers' values at its place.
    ///
    /// # Errors
    /// Returns [`Error::WorkerLost`](pavlov_tune::Error::WorkerLost) if a worker has ended. Fails if another worker
    /// makes another call or none for half an hour, and after any earlier error.
    fn all_reduce(&self, values: &mut [f32], op: ReduceOp) -> Result<()>;

    /// Does the same as [`all_reduce`](Collective::all_reduce) in double precision.
    ///
    /// # Errors
    /// Fails in the same cases as [`all_reduce`](Collective::all_reduce).
    fn all_reduce_f64(&self, values: &mut [f64], op: ReduceOp) -> Result<()>;

    /// Replaces the bytes by those of worker `root`.
    ///
    /// # Errors
    /// Returns [`Error::Config`](pavlov_tune::Error::Config) if there is no worker `root`. Fails otherwise in the same
    /// cases as [`all_reduce`](Collective::all_reduce).
    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()>;

    /// Returns the bytes of all workers, by rank; they need not be equally many.
    ///
    /// # Errors
    /// Fails in the same cases as [`all_reduce`](Collective::all_reduce).
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Returns once all workers have called it.
    ///
    /// # Errors
    /// Fails in the same cases as [`all_reduce`](Collective::all_reduce).
    fn barrier(&self) -> Result<()>;
}
