//! The rollout workers of a run: the requests to them, their replies, and fragments that arrive before they are needed.

use crate::experience::Source;
use crate::sample::{EnvRunner, FilterStats, Reply, Request, Sampled};
use crate::settings::Common;
use crate::workers::health::{Event, Health};
use crate::workers::learners::{Learners, Published};
use crate::workers::transport::WorkerPool;
use pavlov_learn::base::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The order in which the plan takes fragments from workers that sample asynchronously.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Fragments are taken from the workers in turn. The weights that each fragment is sampled with are known in
    /// advance, so a run repeats bit for bit. A slow worker holds up the others when each of them has `in_flight`
    /// fragments waiting or under way.
    #[default]
    Deterministic,
    /// Fragments are taken as they arrive, for environments whose steps take uneven time. A run does not repeat.
    FirstCome,
}

/// The rollout workers on a transport, and the environments of the plan's own thread. Only the thread that runs the
/// plan sends requests to workers.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// The transport, with the rules for workers that fail.
    pub(crate) health: Health,
    /// The environments of the plan's own thread.
    pub(crate) local: EnvRunner,
    /// The policies that learn.
    pub(crate) learners: Learners,
    /// For each worker, the fragments that arrived before the plan asked for them.
    pub(crate) early: Vec<VecDeque<Sampled>>,
    /// For each worker, the version of the weights that were sent to it last.
    sent: Vec<u64>,
    /// The task that was set last in the environments that sample for training.
    pub(crate) task: Option<Arc<Value>>,
    /// Index of the worker whose fragment is taken next. With `Order::FirstCome` it is the index of the worker that is
    /// looked at first.
    pub(crate) turn: usize,
    /// Whether a worker has failed and no setting lets the run go on without it.
    pub(crate) is_broken: bool,
}

impl Fleet {
    pub(crate) fn new(
        pool: Box<dyn WorkerPool>,
        common: &Common,
        local: EnvRunner,
        learners: Learners,
    ) -> Self {
        let early = (0..pool.len()).map(|_| VecDeque::new()).collect();
        let sent = vec![0; pool.len()];
        Self {
            health: Health::new(pool, common),
            local,
            learners,
            early,
            sent,
            task: None,
            turn: 0,
            is_broken: false,
        }
    }

    /// Whether the run has no rollout workers.
    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty()
    }

    /// Indices of the workers that have not failed for good, counted from 0.
    pub(crate) fn up(&self) -> Vec<usize> {
        self.health.up().collect()
    }

    /// Number of workers that can answer now: neither lost nor waiting to be replaced.
    pub(crate) fn healthy(&self) -> usize {
        self.health.healthy()
    }

    /// Number of times that a worker was replaced.
    pub(crate) fn restarts(&self) -> u64 {
        self.health.restarts()
    }

    /// Whether a worker has failed and no setting lets the run go on without it.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The environments of the plan's own thread.
    pub(crate) fn local(&mut self) -> &mut EnvRunner {
        &mut self.local
    }

    /// Waits for the next event. If it is a fragment, the fragment is kept for later, and the result is `None`.
    fn next(&mut self) -> Result<Option<Event>> {
        let Self { health, local, learners, early, task, .. } = self;
        let revive = || {
            let published = learners.published();
            let weights = published.weights;
            let filters = Some(local.filter_stats()).filter(|stats| !stats.is_empty()).map(Arc::new);
            let weights = weights.map(|weights| Request::SetWeights { version: published.version, weights });
            let task = task.clone().map(Request::SetTask);
            weights.into_iter().chain(filters.map(Request::SetFilters)).chain(task).collect()
        };
        let event = health.next(revive);
        self.is_broken = event.is_err();
        match event? {
            Event::Answer { worker, reply: Reply::Sample(part), .. } => {
                early[worker].push_back(part);
                Ok(None)
            }
            event => Ok(Some(event)),
        }
    }

    /// Sends a request to every worker that is up, and waits for all replies. Returns the replies by index of the
    /// worker, counted from 0.
    pub(crate) fn ask_all(&mut self, request: impl Fn(usize) -> Request) -> Result<BTreeMap<usize, Reply>> {
        let mut waiting = BTreeMap::new();
        for worker in self.up() {
            waiting.insert(worker, self.health.ask(worker, request(worker))?);
        }
        let mut replies = BTreeMap::new();
        while !waiting.is_empty() {
            match self.next()? {
                Some(Event::Answer { worker, ticket, reply }) if waiting.get(&worker) == Some(&ticket) => {
                    waiting.remove(&worker);
                    replies.insert(worker, reply);
                }
                Some(Event::Lost { worker }) => drop(waiting.remove(&worker)),
                _ => {}
            }
        }
        if replies.is_empty() && !self.is_empty() { Err(no_worker_left()) } else { Ok(replies) }
    }

    /// Returns one fragment of every worker, in the order of the workers; fragments that were requested earlier are
    /// returned first.
    pub(crate) fn round(&mut self, timestep: u64) -> Result<Vec<Sampled>> {
        if self.is_empty() {
            let Self { local, learners, .. } = self;
            let part = learners.lend(|policies, hooks| local.sample(policies, hooks, timestep))?;
            let version = learners.published().version;
            return Ok(vec![from_worker(0, Sampled { version, ..part })]);
        }
        for worker in self.up() {
            if self.early[worker].is_empty() && self.health.fragments_owed(worker) == 0 {
                self.health.ask(worker, Request::Sample { timestep })?;
            }
        }
        while self.health.up().any(|worker| self.early[worker].is_empty()) {
            self.next()?;
        }
        let mut parts = Vec::with_capacity(self.early.len());
        for (worker, early) in self.early.iter_mut().enumerate() {
            parts.extend(early.pop_front().map(|part| from_worker(worker + 1, part)));
        }
        if parts.is_empty() { Err(no_worker_left()) } else { Ok(parts) }
    }

    /// Returns the next fragment of one worker, chosen by `order`. Asks that worker for another fragment, so that each
    /// worker always has `in_flight` fragments waiting or under way. Newly published weights are sent before the
    /// request.
    pub(crate) fn take(&mut self, in_flight: usize, order: Order, timestep: u64) -> Result<Sampled> {
        for worker in self.up() {
            while self.early[worker].len() + self.health.fragments_owed(worker) < in_flight {
                self.ask_fragment(worker, timestep)?;
            }
        }
        let worker = loop {
            match self.ready(order)? {
                Some(worker) => break worker,
                None => drop(self.next()?),
            }
        };
        self.turn = (worker + 1) % self.early.len();
        let part = self.early[worker].pop_front().ok_or_else(no_worker_left)?;
        if self.health.is_up(worker)
            && self.early[worker].len() + self.health.fragments_owed(worker) < in_flight
        {
            self.ask_fragment(worker, timestep + part.batch.env_steps)?;
        }
        Ok(from_worker(worker + 1, part))
    }

    /// Index of the worker whose fragment can be taken now; `None` if the plan must wait for a fragment.
    fn ready(&self, order: Order) -> Result<Option<usize>> {
        let workers = self.early.len();
        let mut from_turn = (0..workers).map(|i| (self.turn + i) % workers);
        let has_one = |&worker: &usize| !self.early[worker].is_empty();
        let can_have_one = |worker: &usize| has_one(worker) || self.health.is_up(*worker);
        let Some(next) = from_turn.clone().find(can_have_one) else { return Err(no_worker_left()) };
        Ok(match order {
            Order::Deterministic => Some(next).filter(has_one),
            Order::FirstCome => from_turn.find(has_one),
        })
    }

    /// Asks a worker for a fragment; before that, sends it the newest published weights if it does not have them.
    fn ask_fragment(&mut self, worker: usize, timestep: u64) -> Result<()> {
        let Published { version, weights } = self.learners.published();
        if let (true, Some(weights)) = (version > self.sent[worker], weights) {
            self.health.tell(worker, Request::SetWeights { version, weights })?;
            self.sent[worker] = version;
        }
        self.health.ask(worker, Request::Sample { timestep })?;
        Ok(())
    }

    /// Asks every worker for a fragment, without waiting for the fragments.
    pub(crate) fn ask_ahead(&mut self, timestep: u64) -> Result<()> {
        for worker in self.up() {
            self.health.ask(worker, Request::Sample { timestep })?;
        }
        Ok(())
    }

    /// Sends the newest published weights to every worker, and waits until all workers have them.
    pub(crate) fn send_weights(&mut self) -> Result<()> {
        let published = self.learners.published();
        let Some(weights) = published.weights else { return Ok(()) };
        let version = published.version;
        self.ask_all(|_| Request::SetWeights { version, weights: Arc::clone(&weights) })?;
        self.sent.fill(version);
        Ok(())
    }

    /// Replaces the statistics of the observation filters, in the plan's own environments and in every worker.
    pub(crate) fn set_filters(&mut self, stats: &FilterStats) -> Result<()> {
        self.local.set_filter_stats(stats)?;
        self.send_filters(stats.clone())
    }

    /// The task that was set last in the environments that sample for training.
    pub(crate) fn task(&self) -> Option<Arc<Value>> {
        self.task.clone()
    }

    /// Sets the task of all environments that sample for training.
    pub(crate) fn set_task(&mut self, task: Arc<Value>) -> Result<()> {
        self.local.set_task(&task)?;
        if !self.is_empty() {
            self.ask_all(|_| Request::SetTask(Arc::clone(&task)))?;
        }
        self.task = Some(task);
        Ok(())
    }

    /// Replaces the statistics of the observation filters of every worker.
    pub(crate) fn send_filters(&mut self, stats: FilterStats) -> Result<()> {
        if !self.is_empty() && !stats.is_empty() {
            let stats = Arc::new(stats);
            self.ask_all(|_| Request::SetFilters(Arc::clone(&stats)))?;
        }
        Ok(())
    }

    /// Merges the statistics that the workers' observation filters have gathered, in the order of the workers; with
    /// `share` sends the result back to the workers.
    pub(crate) fn sync_filters(&mut self, share: bool) -> Result<()> {
        if self.is_empty() {
            self.local.flush_filters();
            return Ok(());
        }
        for reply in self.ask_all(|_| Request::FlushFilters)?.into_values() {
            if let Reply::Filters(seen) = reply {
                self.local.merge_filters(&seen);
            }
        }
        let merged = self.local.filter_stats();
        if share { self.send_filters(merged) } else { Ok(()) }
    }
}

/// Records in a fragment which worker sampled it; worker 0 is the trainer.
fn from_worker(worker: usize, mut part: Sampled) -> Sampled {
    part.batch.sources = vec![Source { worker, version: part.version, env_steps: part.batch.env_steps }];
    part
}

fn no_worker_left() -> Error {
    Error::Worker { worker: 0, reason: "no healthy worker is left".to_owned() }
}
