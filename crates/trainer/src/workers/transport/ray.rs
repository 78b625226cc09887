//! [`RayPool`]: workers on a Ray cluster. One actor per worker starts this executable on the machine that Ray chooses.
//!
//! A helper process in Python, the engine, talks to Ray. It passes frames to the actors unchanged, so these workers are
//! the same as worker processes on this machine, and the trainer outlives the cluster.

use crate::sample::{Request, WorkerSpec};
use crate::settings::Common;
use crate::workers::transport::connection::{Connection, WorkerAddress};
use crate::workers::transport::pool::{Completion, Fault, WorkerPool, validate};
use crossbeam_channel::{Receiver, Sender, unbounded};
use pavlov_learn::base::Result;
use pavlov_processes::{ChildCommand, RayEngine, rollout_command};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Rollout workers on a Ray cluster, one actor per worker.
#[derive(Debug)]
pub struct RayPool {
    spec: Arc<WorkerSpec>,
    /// The connection to the actor of each worker.
    lives: Vec<Connection>,
    /// Completions of all workers.
    completions: Receiver<Completion>,
    /// Sender of `completions`, of which every connection gets a clone.
    send_completions: Sender<Completion>,
    /// Number of requests so far, which is the number of the last request.
    requests: u64,
    /// The helper process that talks to Ray, shared by all pools.
    engine: Arc<RayEngine>,
    /// The engine's number for this pool; 0 for a pool without workers.
    number: u64,
}

impl RayPool {
    /// Starts `workers` actors: on the cluster at `RAY_ADDRESS`, or else on a cluster that is started on this machine
    /// and ends with the last pool. With `validate_workers_after_construction` it waits until every worker has its
    /// environments.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) if the program has not called `child_main` with the trainable
    /// of these workers, if the Python (`PAVLOV_PYTHON`, else `python3`) has no Ray or another version of it, or if
    /// the cluster cannot be reached or has no room for all workers in `worker_health_probe_timeout_s`; and
    /// [`Error::Worker`](crate::Error::Worker) if a worker cannot make its environment or policies or is not ready in
    /// that time.
    pub fn new(spec: &WorkerSpec, workers: usize) -> Result<Self> {
        Self::asked(spec, workers, Asked::WORKERS)
    }

    /// Starts `workers` actors as [`new`](Self::new) does, for a pool that other settings ask for; errors name the
    /// settings in `asked`.
    pub(crate) fn asked(spec: &WorkerSpec, workers: usize, asked: Asked) -> Result<Self> {
        let (send_completions, completions) = unbounded();
        // A trainable that `main` does not pass to `child_main` is refused before a cluster is started.
        command(spec)?;
        let engine = RayEngine::shared(asked.by)?;
        let number = match workers {
            0 => 0,
            _ => engine.reserve(asked.by, reservation(&spec.names.common, workers, asked.less))?,
        };
        let mut pool = Self {
            spec: Arc::new(spec.clone()),
            lives: Vec::new(),
            completions,
            send_completions,
            requests: 0,
            engine,
            number,
        };
        let mut starts = Vec::new();
        for worker in 0..workers {
            let (life, start) = pool.spawn(worker, 0)?;
            pool.lives.push(life);
            starts.push(start);
        }
        validate(&mut pool, starts, &spec.names.common)?;
        Ok(pool)
    }

    /// Address of this machine in the Ray cluster.
    pub(crate) fn node_address(&self) -> &str {
        self.engine.node_address()
    }

    /// Starts the actor of a worker; returns the connection, and the number of the request that stands for its start.
    fn spawn(&mut self, worker: usize, incarnation: u64) -> Result<(Connection, u64)> {
        self.requests += 1;
        let place = WorkerAddress { worker, incarnation, completions: self.send_completions.clone() };
        let start = json!({
            "pool": self.number, "worker": worker, "resources": resources(&self.spec.names.common),
            "labels": self.spec.names.common.label_selector_per_worker, "program": command(&self.spec)?,
        });
        let (body, socket) = self.engine.start(start)?;
        let life = Connection::start(Box::new(body), socket, &self.spec, place, self.requests)?;
        Ok((life, self.requests))
    }
}

/// The command that starts the process of a worker.
fn command(spec: &WorkerSpec) -> Result<ChildCommand> {
    Ok(rollout_command(spec.trainable()?, "ray", spec.names.common.num_cpus_per_worker.max(1))?)
}

/// Amounts of the resources of one worker, by the names that Ray gives them.
fn resources(common: &Common) -> Map<String, Value> {
    let own = [("CPU", common.num_cpus_per_worker as f64), ("GPU", common.num_gpus_per_worker)];
    let own = own.map(|(name, amount)| (name.to_owned(), amount.into()));
    let custom = common.custom_resources_per_worker.iter();
    own.into_iter().chain(custom.map(|(name, amount)| (name.clone(), (*amount).into()))).collect()
}

/// The settings that errors name when Ray does not start, or its cluster has no room for a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The setting that asks for the pool.
    by: &'static str,
    /// The settings that such an error advises to lower, so that the pool has room.
    less: &'static str,
}

impl Asked {
    const WORKERS: Self = Self {
        by: "workers",
        less: "`num_cpus_per_worker`, `num_gpus_per_worker`, `custom_resources_per_worker`",
    };
    pub(crate) const LEARNERS: Self = Self { by: "learners", less: "`num_cpus_per_learner`" };
}

/// The request to reserve resources for all workers of a pool.
fn reservation(common: &Common, workers: usize, less: &str) -> Value {
    json!({
        "workers": workers, "resources": resources(common), "labels": common.label_selector_per_worker,
        "strategy": common.placement_strategy, "patience": common.worker_health_probe_timeout_s,
        "longer": "`worker_health_probe_timeout_s`", "less": less,
    })
}

impl WorkerPool for RayPool {
    fn len(&self) -> usize {
        self.lives.len()
    }

    fn submit(&mut self, worker: usize, request: Request) -> Result<u64> {
        self.requests += 1;
        self.lives[worker].submit(self.requests, request);
        Ok(self.requests)
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completion>> {
        // The pool holds a sender itself, so `recv` cannot fail.
        let next = match timeout {
            None => self.completions.recv().ok(),
            Some(timeout) => self.completions.recv_timeout(timeout).ok(),
        };
        // When the engine is gone, no worker can be replaced, whatever the settings say.
        match &next {
            Some(Completion { result: Err(Fault::Dead(_)), .. }) => {
                Ok(self.engine.alive("workers").map(|()| next)?)
            }
            _ => Ok(next),
        }
    }

    fn respawn(&mut self, worker: usize) -> Result<u64> {
        self.lives[worker].kill();
        let (life, start) = self.spawn(worker, self.lives[worker].incarnation() + 1)?;
        self.lives[worker] = life;
        Ok(start)
    }

    fn incarnation(&self, worker: usize) -> u64 {
        self.lives[worker].incarnation()
    }
}

impl Drop for RayPool {
    fn drop(&mut self) {
        // All connections are closed before the first process is waited for.
        self.lives.iter_mut().for_each(Connection::close);
        self.lives.iter_mut().for_each(Connection::bury);
        self.engine.release(self.number);
    }
}
