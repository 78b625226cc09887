//! [`ProcessPool`]: workers as processes of this machine. Each runs this executable, and is connected by a socket.
//!
//! A process that crashes, leaks or hangs does no harm to the others. Workers share the standard output and error of
//! this process. Requests and replies pass through a socket of their own, so the output of an environment never mixes
//! with them.

mod child;

pub(crate) use child::serve;

use crate::sample::{Request, WorkerSpec};
use crate::workers::transport::connection::{Connection, WorkerAddress};
use crate::workers::transport::pool::{Completion, WorkerPool, validate};
use crossbeam_channel::{Receiver, Sender, unbounded};
use pavlov_learn::base::Result;
use pavlov_processes::RolloutProcess;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Rollout workers in processes of this machine, one process per worker.
#[derive(Debug)]
pub struct ProcessPool {
    spec: Arc<WorkerSpec>,
    /// The connection to the process of each worker.
    lives: Vec<Connection>,
    /// Process id of each worker.
    pids: Vec<u32>,
    /// A process that is started in advance and becomes the next replacement, which then need not wait until libtorch
    /// is loaded.
    spare: Option<(RolloutProcess, UnixStream)>,
    /// Completions of all workers.
    completions: Receiver<Completion>,
    /// Sender of `completions`, of which every connection gets a clone.
    send_completions: Sender<Completion>,
    /// Number of requests so far, which is the number of the last request.
    requests: u64,
}

impl ProcessPool {
    /// Starts `workers` processes and, with `validate_workers_after_construction`, waits until every worker has its
    /// environments.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) if the program has not called `child_main` with the trainable
    /// of these workers, and [`Error::Worker`](crate::Error::Worker) if a worker cannot make its environment or
    /// policies or is not ready in `worker_health_probe_timeout_s`. Fails if a process cannot be started.
    pub fn new(spec: &WorkerSpec, workers: usize) -> Result<Self> {
        let (send_completions, completions) = unbounded();
        spec.trainable()?;
        let mut pool = Self {
            spec: Arc::new(spec.clone()),
            lives: Vec::new(),
            pids: vec![0; workers],
            spare: None,
            completions,
            send_completions,
            requests: 0,
        };
        let mut starts = Vec::new();
        for worker in 0..workers {
            let (life, start) = pool.spawn(worker, 0)?;
            pool.lives.push(life);
            starts.push(start);
        }
        validate(&mut pool, starts, &spec.names.common)?;
        pool.provide_spare();
        Ok(pool)
    }

    /// Process ids of the workers, in the order of the workers.
    pub fn pids(&self) -> Vec<u32> {
        self.pids.clone()
    }

    /// Connects a process for a worker; returns the connection, and the number of the request that stands for its
    /// start.
    fn spawn(&mut self, worker: usize, incarnation: u64) -> Result<(Connection, u64)> {
        self.requests += 1;
        let place = WorkerAddress { worker, incarnation, completions: self.send_completions.clone() };
        let (process, socket) = match self.spare.take() {
            Some(spare) => spare,
            None => self.process()?,
        };
        self.pids[worker] = process.id();
        let life = Connection::start(Box::new(process), socket, &self.spec, place, self.requests)?;
        Ok((life, self.requests))
    }

    /// Starts a process that waits for its worker number and settings.
    fn process(&self) -> Result<(RolloutProcess, UnixStream)> {
        let num_threads = self.spec.names.common.num_cpus_per_worker.max(1);
        Ok(RolloutProcess::start(self.spec.trainable()?, num_threads)?)
    }

    /// Starts a process in advance, if workers that fail are replaced.
    fn provide_spare(&mut self) {
        if self.spec.names.common.recreate_failed_workers && !self.lives.is_empty() {
            // Without such a process, one is started when it is needed, and reports its error then.
            self.spare = self.process().ok();
        }
    }
}

impl WorkerPool for ProcessPool {
    fn len(&self) -> usize {
        self.lives.len()
    }

    fn submit(&mut self, worker: usize, request: Request) -> Result<u64> {
        self.requests += 1;
        self.lives[worker].submit(self.requests, request);
        Ok(self.requests)
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completion>> {
        match timeout {
            // The pool holds a sender itself, so `recv` cannot fail.
            None => Ok(self.completions.recv().ok()),
            Some(timeout) => Ok(self.completions.recv_timeout(timeout).ok()),
        }
    }

    fn respawn(&mut self, worker: usize) -> Result<u64> {
        self.lives[worker].kill();
        let (life, start) = self.spawn(worker, self.lives[worker].incarnation() + 1)?;
        self.lives[worker] = life;
        self.provide_spare();
        Ok(start)
    }

    fn incarnation(&self, worker: usize) -> u64 {
        self.lives[worker].incarnation()
    }
}

impl Drop for ProcessPool {
    fn drop(&mut self) {
        // All connections are closed before the first process is waited for.
        self.lives.iter_mut().for_each(Connection::close);
        self.lives.iter_mut().for_each(Connection::bury);
    }
}
