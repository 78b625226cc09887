//! Rollout workers behind a transport: threads now, processes and a cluster later.
//!
//! A [`WorkerPool`] only carries requests and replies. The rules of health are the same for every transport and stand
//! above it.

mod threads;

pub use threads::ThreadPool;

use crate::{
    base::error::Result,
    sample::worker::{Reply, Request},
};
use std::time::Duration;

/// Why a request has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The worker is alive and reports an error.
    App(String),
    /// The worker is gone.
    Dead(String),
}

/// A reply, in whatever order they come.
#[derive(Debug)]
pub struct Completion {
    /// The worker that answers, counted from 0.
    pub worker: usize,
    /// Which life of that worker answers, counted from 0.
    pub incarnation: u64,
    /// The number of the request, as [`WorkerPool::submit`] gave it.
    pub request: u64,
    /// The worker's answer, or why there is none.
    pub result: Result<Reply, Fault>,
}

/// Carries requests to workers and replies back. No policy about failures.
///
/// # Contract
///
/// * Requests to one worker are answered in order.
/// * `next` returns every completion once; those of a life that ended by `respawn` may still come, with its number.
/// * Dropping the pool ends the workers.
pub trait WorkerPool: Send + std::fmt::Debug {
    /// Number of workers.
    fn len(&self) -> usize;

    /// Whether there are no workers.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands a request over; returns its number.
    ///
    /// # Errors
    /// Fails if the transport cannot carry the request. That a worker is gone is no error here: [`next`](Self::next)
    /// reports it.
    fn submit(&mut self, worker: usize, request: Request) -> Result<u64>;

    /// The next completion; `None` when `timeout` passes first.
    ///
    /// # Errors
    /// Fails if the transport itself does. What a worker reports is in the completion.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completion>>;

    /// Ends a worker and starts it anew, with fresh environments and initial weights. Returns its new incarnation.
    ///
    /// # Errors
    /// Fails if the environment or a policy of the new worker cannot be made.
    fn respawn(&mut self, worker: usize) -> Result<u64>;

    /// Which life the worker is in, counted from 0.
    fn incarnation(&self, worker: usize) -> u64;
}
