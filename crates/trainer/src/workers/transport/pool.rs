//! [`WorkerPool`]: the trait of a transport, and its contract.

use crate::sample::{Reply, Request};
use crate::settings::Common;
use pavlov_learn::base::{Error, Result};
use std::time::{Duration, Instant};

/// Reason why a request has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The worker is alive and reports an error, with this message.
    App(String),
    /// The worker is gone, for this reason.
    Dead(String),
    /// A setting breaks a rule that only the worker could check: no other worker would do better.
    Setting {
        /// The key as the user writes it.
        key: String,
        /// The value of the setting.
        value: String,
        /// The rule and the way out.
        rule: String,
    },
}

impl Fault {
    /// The fault of a worker that is alive and reports this error.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Config { key, value, rule } => {
                Self::Setting { key: key.clone(), value: value.clone(), rule: rule.clone() }
            }
            error => Self::App(error.to_string()),
        }
    }

    /// The fault of a worker that this error ends.
    pub(crate) fn of_end(error: &Error) -> Self {
        match Self::of(error) {
            Self::App(reason) => Self::Dead(reason),
            setting => setting,
        }
    }

    /// The reason in words.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::App(reason) | Self::Dead(reason) => reason.clone(),
            Self::Setting { key, value, rule } => Error::config(key, value, rule).to_string(),
        }
    }

    /// The error of a run that cannot go on without this worker. A setting is to blame itself, not the worker.
    pub(crate) fn into_error(self, worker: usize) -> Error {
        match self {
            Self::App(reason) | Self::Dead(reason) => Error::Worker { worker, reason },
            Self::Setting { key, value, rule } => Error::Config { key, value, rule },
        }
    }
}

/// The reply to one request, or the reason why there is none.
#[derive(Debug)]
pub struct Completion {
    /// The worker that answers, counted from 0.
    pub worker: usize,
    /// Incarnation of the worker that answers: the number of times that it was replaced before.
    pub incarnation: u64,
    /// Number of the request that is answered, as returned by [`WorkerPool::submit`] or [`WorkerPool::respawn`].
    pub request: u64,
    /// The worker's reply, or the reason why there is none.
    pub result: Result<Reply, Fault>,
}

/// A transport: it carries requests to workers, and their replies back. It has no rules for workers that fail.
///
/// [`check_worker_pool`](crate::workers::transport::check::check_worker_pool) checks that a pool keeps the contract.
///
/// # Contract
///
/// * Requests to one worker are answered in order.
/// * Every request to the current incarnation of a worker is completed once, with an error if the worker is gone.
/// * `next` may return completions of an incarnation that `respawn` has ended; they have the number of that
///   incarnation.
/// * Neither `submit` nor `respawn` waits for a worker.
/// * Dropping the pool ends the workers.
pub trait WorkerPool: Send + std::fmt::Debug {
    /// Number of workers.
    fn len(&self) -> usize;

    /// Whether there are no workers.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends a request to a worker. Returns the number of the request, which its completion has, too.
    ///
    /// # Errors
    /// Fails if the transport cannot carry the request. If the worker is gone, [`next`](Self::next) reports it instead.
    fn submit(&mut self, worker: usize, request: Request) -> Result<u64>;

    /// Waits for the next completion; returns `None` if `timeout` passes first. Without a timeout it waits for ever.
    ///
    /// # Errors
    /// Fails if the transport itself does. Errors that a worker reports are in the completion.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completion>>;

    /// Ends a worker and starts a new one in its place, with fresh environments and initial weights. Returns the number
    /// of a request, which is completed with [`Reply::Done`] when the new worker is ready, or with the error of its
    /// start.
    ///
    /// # Errors
    /// Fails if no thread or process can be started for the worker.
    fn respawn(&mut self, worker: usize) -> Result<u64>;

    /// The incarnation of a worker: the number of times that it was replaced.
    fn incarnation(&self, worker: usize) -> u64;
}

/// Waits until every worker of a new pool is ready; `starts` has the numbers of the requests that stand for their
/// starts. Without `validate_workers_after_construction` it does not wait, and the first request to a worker that
/// cannot start fails.
///
/// # Errors
/// Returns [`Error::Worker`] with the reason if a worker fails or is not ready in `worker_health_probe_timeout_s`.
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
                if let Err(fault) = result {
                    return Err(fault.into_error(worker + 1));
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

/// The message of the error about a worker that is not ready within `limit`.
pub(crate) fn not_ready(limit: Option<Duration>) -> String {
    let seconds = limit.unwrap_or_default().as_secs_f64();
    format!("it is not ready in {seconds} s (`worker_health_probe_timeout_s`)")
}
