//! The contract of a transport.

use crate::base::{Error, Result};
use crate::sample::{Reply, Request};
use crate::settings::Common;
use std::time::{Duration, Instant};

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
    /// The number of the request, as [`WorkerPool::submit`] or [`WorkerPool::respawn`] gave it.
    pub request: u64,
    /// The worker's answer, or why there is none.
    pub result: Result<Reply, Fault>,
}

/// Carries requests to workers and replies back. No policy about failures.
///
/// [`check_worker_pool`](crate::workers::transport::check::check_worker_pool) checks the contract.
///
/// # Contract
///
/// * Requests to one worker are answered in order.
/// * Every request to the present life of a worker is completed once. If the worker is gone, the completion says so.
/// * `next` may return completions of a life that ended by `respawn`, with the number of that life.
/// * Neither `submit` nor `respawn` waits for a worker.
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

    /// Ends a worker and starts it anew, with fresh environments and initial weights. Returns the number of the request
    /// that is completed with [`Reply::Done`] when the worker is ready, or with what it failed at.
    ///
    /// # Errors
    /// Fails if the transport has no thread or process for the worker.
    fn respawn(&mut self, worker: usize) -> Result<u64>;

    /// Which life the worker is in, counted from 0.
    fn incarnation(&self, worker: usize) -> u64;
}

/// Waits until every worker of a new pool is ready, which `starts` has the requests of. Without
/// `validate_workers_after_construction` it does not wait: what is asked next fails where a worker is not ready.
///
/// # Errors
/// Returns [`Error::Worker`] with what a worker failed at, or if one is not ready in `worker_health_probe_timeout_s`.
pub(crate) fn validate(pool: &mut dyn WorkerPool, mut starts: Vec<u64>, common: &Common) -> Result<()> {
    if !common.validate_workers_after_construction {
        return Ok(());
    }
    let limit = common.worker_health_probe_timeout_s.map(Duration::from_secs_f64);
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut ready = vec![false; starts.len()];
    while !starts.is_empty() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match pool.next(left)? {
            Some(Completion { worker, request, result, .. }) => {
                if let Err(Fault::App(reason) | Fault::Dead(reason)) = result {
                    return Err(Error::Worker { worker: worker + 1, reason });
                }
                starts.retain(|start| *start != request);
                ready[worker] = true;
            }
            None => {
                let worker = ready.iter().position(|ready| !ready).unwrap_or_default() + 1;
                return Err(Error::Worker { worker, reason: not_ready(limit) });
            }
        }
    }
    Ok(())
}

/// What a worker failed at that is not ready in time.
pub(crate) fn not_ready(limit: Option<Duration>) -> String {
    let seconds = limit.unwrap_or_default().as_secs_f64();
    format!("it is not ready in {seconds} s (`worker_health_probe_timeout_s`)")
}
