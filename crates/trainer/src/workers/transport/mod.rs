//! Transports of rollout workers: threads, processes of this machine, or a Ray cluster.
//!
//! A [`WorkerPool`] only carries requests and replies. The rules for workers that fail or are late are in `health.rs`,
//! and are the same for every transport.

mod check;
mod connection;
mod pool;
mod procs;
mod ray;
mod threads;

pub use check::check_worker_pool;
pub(crate) use pool::not_ready;
pub use pool::{Completion, Fault, WorkerPool};
pub use procs::ProcessPool;
pub(crate) use procs::serve;
pub(crate) use ray::Asked;
pub use ray::RayPool;
pub use threads::ThreadPool;

use crate::sample::WorkerSpec;
use pavlov_learn::base::Result;
use pavlov_processes::WorkerTransport;

/// Starts the rollout workers of a run, on the transport that the settings name.
///
/// # Errors
/// Fails if a worker cannot be started or, with `validate_workers_after_construction`, cannot make its environments.
pub(crate) fn workers(spec: &WorkerSpec) -> Result<Box<dyn WorkerPool>> {
    let number = spec.names.common.num_workers;
    Ok(match spec.names.common.workers.transport {
        WorkerTransport::Threads => Box::new(ThreadPool::new(spec.clone(), number)?),
        // Without workers no Ray cluster is started.
        WorkerTransport::Ray if number == 0 => Box::new(ThreadPool::new(spec.clone(), 0)?),
        WorkerTransport::Procs => Box::new(ProcessPool::new(spec, number)?),
        WorkerTransport::Ray => Box::new(RayPool::new(spec, number)?),
    })
}
