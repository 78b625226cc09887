//! Rules for workers that fail or are late, which hold for every transport.
//!
//! A worker is up until it fails or misses a deadline. Then it is replaced or left out, or the run ends, as the
//! settings say. From its second failure in a row on, a worker is replaced only after a pause, which is longer each
//! time; the other workers go on meanwhile. A replaced worker first gets the weights and the filters, and then the
//! requests that are still unanswered. Late replies of the worker before it have another incarnation number, and are
//! dropped.

use crate::sample::{Reply, Request};
use crate::settings::Common;
use crate::workers::transport::{Completion, Fault, WorkerPool, not_ready};
use pavlov_learn::base::{Error, Result};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Pause before a worker is replaced after its second failure in a row; each further failure doubles the pause, up to
/// `LONGEST_REST`.
const REST: Duration = Duration::from_millis(100);
/// Longest pause before a failed worker is replaced.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// A transport, with the state of each worker and the settings for failures.
#[derive(Debug)]
pub(crate) struct Health {
    pool: Box<dyn WorkerPool>,
    workers: Vec<WorkerStatus>,
    /// Time in which a worker must answer (`worker_timeout_s`); `None` waits for ever.
    timeout: Option<Duration>,
    /// Time in which a started worker must be ready (`worker_health_probe_timeout_s`); `None` waits for ever.
    start_timeout: Option<Duration>,
    /// Number of failures in a row of one worker that do not end the run.
    tolerance: usize,
    /// Whether workers that failed are replaced.
    recreate: bool,
    /// Whether the run goes on without workers that failed.
    ignore: bool,
    /// Number of times that a worker was replaced.
    restarts: u64,
    /// Number of the last ticket that was given out.
    tickets: u64,
}

/// The state of one worker.
#[derive(Debug)]
struct WorkerStatus {
    /// Whether the worker takes part in the run: it works, or waits to be replaced.
    up: bool,
    /// Number of failures since the worker last answered with a fragment or an evaluation.
    failures: usize,
    /// Time at which the failed worker is replaced and its unanswered requests are sent again; `None` if it works.
    rests_until: Option<Instant>,
    /// Unanswered requests, the oldest first.
    owes: VecDeque<PendingRequest>,
}

/// A request that has no answer yet.
#[derive(Debug)]
struct PendingRequest {
    /// Number by which the caller finds the answer; a request that is sent again keeps it. `None` if nobody waits for
    /// the answer.
    ticket: Option<u64>,
    /// Number of the request in the transport, which is new each time it is sent; 0 while the worker waits to be
    /// replaced.
    number: u64,
    /// The request; `None` stands for the start of a worker, which is answered when the worker is ready.
    request: Option<Request>,
    /// Earliest time at which the worker could begin to work on the request.
    since: Instant,
    /// Whether the user was warned that the answer takes long.
    is_said: bool,
}

/// An event that the plan waits for: the reply of a worker, or the loss of a worker.
#[derive(Debug)]
pub(crate) enum Event {
    /// A worker has answered the request with this ticket.
    Answer { worker: usize, ticket: u64, reply: Reply },
    /// A worker has failed and is left out from now on; its unanswered requests stay unanswered.
    Lost { worker: usize },
}

impl Health {
    /// Begins with all workers of `pool` up.
    pub(crate) fn new(pool: Box<dyn WorkerPool>, common: &Common) -> Self {
        let condition = |_| WorkerStatus { up: true, failures: 0, rests_until: None, owes: VecDeque::new() };
        Self {
            workers: (0..pool.len()).map(condition).collect(),
            pool,
            timeout: common.worker_timeout_s.map(Duration::from_secs_f64),
            start_timeout: common.worker_health_probe_timeout_s.map(Duration::from_secs_f64),
            tolerance: common.num_consecutive_worker_failures_tolerance,
            recreate: common.recreate_failed_workers,
            ignore: common.ignore_worker_failures,
            restarts: 0,
            tickets: 0,
        }
    }

    /// Indices of the workers that are up, counted from 0; they include those that wait to be replaced.
    pub(crate) fn up(&self) -> impl Iterator<Item = usize> + '_ {
        self.workers.iter().enumerate().filter(|(_, w)| w.up).map(|(worker, _)| worker)
    }

    /// Number of workers that are up, without those that wait to be replaced.
    pub(crate) fn healthy(&self) -> usize {
        self.workers.iter().filter(|w| w.up && w.rests_until.is_none()).count()
    }

    /// Whether a worker is up: it works, or waits to be replaced.
    pub(crate) fn is_up(&self, worker: usize) -> bool {
        self.workers[worker].up
    }

    /// Number of times that a worker was replaced.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Number of requests for fragments that a worker has not answered, and whose answers the plan waits for.
    pub(crate) fn fragments_owed(&self, worker: usize) -> usize {
        let is_fragment =
            |o: &&PendingRequest| o.ticket.is_some() && matches!(o.request, Some(Request::Sample { .. }));
        self.workers[worker].owes.iter().filter(is_fragment).count()
    }

    /// Gives up waiting for the answers to all open requests: they will cause no event.
    pub(crate) fn forget_all(&mut self) {
        self.workers.iter_mut().flat_map(|w| &mut w.owes).for_each(|o| o.ticket = None);
    }

    /// Sends a request to a worker. Returns the ticket of the request, which the event of its answer has, too.
    pub(crate) fn ask(&mut self, worker: usize, request: Request) -> Result<u64> {
        self.tickets += 1;
        self.submit(worker, Some(self.tickets), request)?;
        Ok(self.tickets)
    }

    /// Sends a worker a request without waiting for the answer, which causes no event.
    pub(crate) fn tell(&mut self, worker: usize, request: Request) -> Result<()> {
        self.submit(worker, None, request)
    }

    /// Sends a request to a worker, or keeps it until the worker is replaced.
    fn submit(&mut self, worker: usize, ticket: Option<u64>, request: Request) -> Result<()> {
        let number = match self.workers[worker].rests_until {
            None => self.pool.submit(worker, request.clone())?,
            Some(_) => 0,
        };
        let owed =
            PendingRequest { ticket, number, request: Some(request), since: Instant::now(), is_said: false };
        self.workers[worker].owes.push_back(owed);
        Ok(())
    }

    /// Waits for the next event. `revive` returns the requests that a replaced worker gets before all others.
    pub(crate) fn next(&mut self, mut revive: impl FnMut() -> Vec<Request>) -> Result<Event> {
        loop {
            self.wake(&mut revive)?;
            if self.workers.iter().all(|w| w.owes.is_empty()) {
                return Err(Error::state("the rollout workers", "nothing was asked of them"));
            }
            let event = match self.pool.next(self.patience())? {
                Some(completion) => self.completed(completion, &mut revive)?,
                None => self.late(&mut revive)?,
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    /// Time until the first worker is overdue or is to be replaced; `None` if neither can happen.
    fn patience(&self) -> Option<Duration> {
        let until = self.workers.iter().filter_map(|w| w.rests_until.or_else(|| self.deadline(w))).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Time at which the oldest request of a worker is overdue, or is reported as slow; `None` if there is no such
    /// time, or the worker waits to be replaced.
    fn deadline(&self, condition: &WorkerStatus) -> Option<Instant> {
        let owed = condition.owes.front().filter(|_| condition.rests_until.is_none())?;
        let limit = match (&owed.request, self.timeout) {
            (None, _) => self.start_timeout,
            (Some(_), None) => self.start_timeout.filter(|_| !owed.is_said),
            (Some(_), limit) => limit,
        };
        Some(owed.since + limit?)
    }

    /// Handles a completion from the transport; returns the event for the plan, if there is one.
    fn completed(
        &mut self,
        Completion { worker, incarnation, request, result }: Completion,
        revive: &mut impl FnMut() -> Vec<Request>,
    ) -> Result<Option<Event>> {
        if self.pool.incarnation(worker) != incarnation {
            return Ok(None);
        }
        let condition = &mut self.workers[worker];
        let Some(place) = condition.owes.iter().position(|o| o.number == request) else { return Ok(None) };
        let Some(owed) = condition.owes.remove(place) else { return Ok(None) };
        // The worker begins with its next request now.
        if let Some(next) = condition.owes.front_mut().filter(|_| place == 0) {
            next.since = Instant::now();
        }
        match result {
            Ok(reply) => {
                if matches!(reply, Reply::Sample(_) | Reply::Evaluation(_)) {
                    condition.failures = 0;
                }
                Ok(owed.ticket.map(|ticket| Event::Answer { worker, ticket, reply }))
            }
            Err(fault) => self.failed(worker, &fault, Some(owed), revive),
        }
    }

    /// Handles the end of a wait without a reply: the first overdue worker counts as failed; without a time limit for
    /// answers the user is warned.
    fn late(&mut self, revive: &mut impl FnMut() -> Vec<Request>) -> Result<Option<Event>> {
        let now = Instant::now();
        let is_late = |w: &WorkerStatus| self.deadline(w).is_some_and(|deadline| deadline <= now);
        let Some(worker) = self.workers.iter().position(is_late) else { return Ok(None) };
        let is_start = self.workers[worker].owes.front().is_some_and(|owed| owed.request.is_none());
        if !is_start && self.timeout.is_none() {
            self.workers[worker].owes.iter_mut().take(1).for_each(|owed| owed.is_said = true);
            let seconds = self.start_timeout.unwrap_or_default().as_secs_f64();
            tracing::warn!(
                "worker {} has not answered for {seconds} s, but its process has not stopped; if no answer takes so long, its \
                 environment hangs, which `worker_timeout_s` would end",
                worker + 1
            );
            return Ok(None);
        }
        let fault = Fault::Dead(if is_start {
            not_ready(self.start_timeout)
        } else {
            let seconds = self.timeout.unwrap_or_default().as_secs_f64();
            format!("no answer in {seconds} s (`worker_timeout_s`)")
        });
        let owed = self.workers[worker].owes.pop_front();
        self.failed(worker, &fault, owed, revive)
    }

    /// Handles the failure of a worker: `owed` is the request at which it failed, and its other requests come after
    /// that one.
    fn failed(
        &mut self,
        worker: usize,
        fault: &Fault,
        owed: Option<PendingRequest>,
        revive: &mut impl FnMut() -> Vec<Request>,
    ) -> Result<Option<Event>> {
        if matches!(fault, Fault::Setting { .. }) {
            // A new worker would refuse the setting as well.
            return Err(fault.clone().into_error(worker + 1));
        }
        let reason = fault.reason();
        let error = |reason| Err(Error::Worker { worker: worker + 1, reason });
        let condition = &mut self.workers[worker];
        condition.failures += 1;
        if !self.recreate && !self.ignore {
            return error(format!(
                "{reason}; set `recreate_failed_workers` or `ignore_worker_failures` to carry on"
            ));
        }
        let failures = condition.failures;
        let tolerance = self.tolerance;
        if failures > tolerance {
            return error(format!(
                "{reason}; that is failure {failures} in a row, and {tolerance} are tolerated \
                 (`num_consecutive_worker_failures_tolerance`)"
            ));
        }
        let owes = std::mem::take(&mut condition.owes);
        if !self.recreate {
            tracing::warn!("worker {} failed and is left out: {reason}", worker + 1);
            condition.up = false;
            return Ok(Some(Event::Lost { worker }));
        }
        tracing::warn!("worker {} failed and is replaced: {reason}", worker + 1);
        // Requests without a ticket were meant for the worker that failed.
        let owes = owed.into_iter().chain(owes).filter(|o| o.ticket.is_some());
        condition.owes = owes.map(|owed| PendingRequest { number: 0, ..owed }).collect();
        let rest = match failures {
            ..2 => Duration::ZERO,
            _ => LONGEST_REST.min(REST * (1 << (failures - 2).min(16))),
        };
        condition.rests_until = Some(Instant::now() + rest);
        self.wake(revive)?;
        Ok(None)
    }

    /// Replaces the failed workers whose pause is over.
    fn wake(&mut self, revive: &mut impl FnMut() -> Vec<Request>) -> Result<()> {
        let now = Instant::now();
        for worker in 0..self.workers.len() {
            if self.workers[worker].rests_until.is_none_or(|until| until > now) {
                continue;
            }
            self.workers[worker].rests_until = None;
            let owes = std::mem::take(&mut self.workers[worker].owes);
            let number = self.pool.respawn(worker)?;
            let start =
                PendingRequest { ticket: None, number, request: None, since: Instant::now(), is_said: false };
            self.workers[worker].owes.push_back(start);
            self.restarts += 1;
            for request in revive() {
                self.submit(worker, None, request)?;
            }
            // Requests without a ticket that came during the pause are covered by `revive`.
            for PendingRequest { ticket, request, .. } in owes.into_iter().filter(|o| o.ticket.is_some()) {
                if let Some(request) = request {
                    self.submit(worker, ticket, request)?;
                }
            }
        }
        Ok(())
    }
}
