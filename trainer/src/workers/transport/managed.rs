//! The rules of health over any transport.

use super::{Completion, Fault, WorkerPool};
use crate::{
    base::error::{Error, Result},
    run::common::Common,
    sample::worker::{Reply, Request},
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Failures in one round after which a run gives up (Ray's MAX_WORKER_FAILURE_RETRIES).
const MAX_FAILURES: usize = 3;

/// A transport and the state of its workers.
#[derive(Debug)]
pub struct ManagedPool {
    pool: Box<dyn WorkerPool>,
    up: Vec<bool>,
    timeout: Option<Duration>,
    recreate: bool,
    ignore: bool,
    restarts: u64,
    ahead: Option<Ahead>,
}

/// Replies by worker, counted from 0.
pub(crate) type Replies = BTreeMap<usize, Reply>;

/// A round that was begun before anybody wanted its replies.
#[derive(Debug)]
enum Ahead {
    /// The request and its numbers by worker.
    Begun(Request, BTreeMap<usize, u64>),
    Done(Replies),
}

impl ManagedPool {
    /// Every worker of `pool` is up.
    pub fn new(pool: Box<dyn WorkerPool>, common: &Common) -> Self {
        Self {
            up: vec![true; pool.len()],
            pool,
            timeout: common.worker_timeout_s.map(Duration::from_secs_f64),
            recreate: common.recreate_failed_workers,
            ignore: common.ignore_worker_failures,
            restarts: 0,
            ahead: None,
        }
    }

    /// Workers that answer, counted from 0.
    pub fn healthy_workers(&self) -> Vec<usize> {
        (0..self.up.len()).filter(|&worker| self.up[worker]).collect()
    }

    /// Workers that were replaced.
    pub fn num_worker_restarts(&self) -> u64 {
        self.restarts
    }

    /// Whether there are no workers at all.
    pub fn is_empty(&self) -> bool {
        self.up.is_empty()
    }

    /// Sends a request to every worker that is up, and returns. A worker answers in order, so whatever is asked next
    /// waits for this round as well; its replies are kept for [`take_ahead`](Self::take_ahead).
    pub(crate) fn begin(&mut self, request: Request) -> Result<()> {
        let waiting = self.submit(|_| request.clone())?;
        self.ahead = Some(Ahead::Begun(request, waiting));
        Ok(())
    }

    /// The replies of the round that was begun, if there is one.
    pub(crate) fn take_ahead(&mut self, revive: impl Fn() -> Vec<Request>) -> Result<Option<Replies>> {
        self.settle(&revive)?;
        Ok(self
            .ahead
            .take()
            .and_then(|ahead| if let Ahead::Done(replies) = ahead { Some(replies) } else { None }))
    }

    /// Where a restored run goes on: as if a round had been begun that ended so, or none.
    pub(crate) fn set_ahead(&mut self, replies: Option<Replies>) {
        self.ahead = replies.map(Ahead::Done);
    }

    /// The replies that [`take_ahead`](Self::take_ahead) would return, once another round has waited for them.
    pub(crate) fn ahead(&self) -> Option<&Replies> {
        match &self.ahead {
            Some(Ahead::Done(replies)) => Some(replies),
            _ => None,
        }
    }

    fn settle(&mut self, revive: &impl Fn() -> Vec<Request>) -> Result<()> {
        self.ahead = match self.ahead.take() {
            Some(Ahead::Begun(request, waiting)) => {
                Some(Ahead::Done(self.wait(waiting, &|_| request.clone(), revive)?))
            }
            settled => settled,
        };
        Ok(())
    }

    fn submit(&mut self, request: impl Fn(usize) -> Request) -> Result<BTreeMap<usize, u64>> {
        let up = self.healthy_workers();
        up.into_iter().map(|worker| Ok((worker, self.pool.submit(worker, request(worker))?))).collect()
    }

    /// Sends a request to every worker that is up and waits for all; replies by worker, counted from 0.
    ///
    /// A failed worker is replaced, dropped or an error, as the settings say. `revive` is what a replaced one is sent
    /// before the request is repeated.
    pub fn ask_all(
        &mut self,
        request: impl Fn(usize) -> Request,
        revive: impl Fn() -> Vec<Request>,
    ) -> Result<BTreeMap<usize, Reply>> {
        self.settle(&revive)?;
        let waiting = self.submit(&request)?;
        self.wait(waiting, &request, &revive)
    }

    fn wait(
        &mut self,
        mut waiting: BTreeMap<usize, u64>,
        request: &impl Fn(usize) -> Request,
        revive: &impl Fn() -> Vec<Request>,
    ) -> Result<Replies> {
        let mut replies = Replies::new();
        let mut failures = 0;
        let mut deadline = self.timeout.map(|t| Instant::now() + t);
        while !waiting.is_empty() {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let failed = match self.pool.next(left)? {
                Some(Completion { worker, incarnation, request, result }) => {
                    let current = self.pool.incarnation(worker) == incarnation
                        && waiting.get(&worker) == Some(&request);
                    match result {
                        // Late words of a former life, or the answer to a reviving request.
                        _ if !current => match result {
                            Err(fault) if self.pool.incarnation(worker) == incarnation => {
                                vec![(worker, fault)]
                            }
                            _ => continue,
                        },
                        Ok(reply) => {
                            waiting.remove(&worker);
                            replies.insert(worker, reply);
                            continue;
                        }
                        Err(fault) => vec![(worker, fault)],
                    }
                }
                None => {
                    let seconds = self.timeout.unwrap_or_default().as_secs_f64();
                    let late = |w: &usize| {
                        (*w, Fault::Dead(format!("no answer in {seconds} s (`worker_timeout_s`)")))
                    };
                    let late = waiting.keys().map(late).collect();
                    deadline = self.timeout.map(|t| Instant::now() + t);
                    late
                }
            };
            for (worker, fault) in failed {
                failures += 1;
                waiting.remove(&worker);
                self.failed(worker, &fault, failures)?;
                if self.up[worker] {
                    for request in revive() {
                        self.pool.submit(worker, request)?;
                    }
                    waiting.insert(worker, self.pool.submit(worker, request(worker))?);
                }
            }
        }
        if replies.is_empty() && !self.up.is_empty() {
            let reason = "no healthy worker is left".to_owned();
            return Err(Error::Worker { worker: 0, reason });
        }
        Ok(replies)
    }

    fn failed(&mut self, worker: usize, fault: &Fault, failures: usize) -> Result<()> {
        let (Fault::App(reason) | Fault::Dead(reason)) = fault;
        if !self.recreate && !self.ignore {
            let reason =
                format!("{reason}; set `recreate_failed_workers` or `ignore_worker_failures` to carry on");
            return Err(Error::Worker { worker: worker + 1, reason });
        }
        if failures > MAX_FAILURES {
            let reason = format!(
                "{reason}; that is failure {failures} in one round, and {MAX_FAILURES} are tolerated"
            );
            return Err(Error::Worker { worker: worker + 1, reason });
        }
        if self.recreate {
            tracing::warn!("worker {} failed and is replaced: {reason}", worker + 1);
            self.pool.respawn(worker)?;
            self.restarts += 1;
        } else {
            tracing::warn!("worker {} failed and is left out: {reason}", worker + 1);
            self.up[worker] = false;
        }
        Ok(())
    }
}
