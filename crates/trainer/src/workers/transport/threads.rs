//! [`ThreadPool`]: workers on threads of this process. Batches and weights are passed on without serialisation.

use crate::sample::{Reply, Request, RolloutWorker, WorkerSpec};
use crate::workers::transport::pool::{Completion, Fault, WorkerPool, validate};
use crossbeam_channel::{Receiver, Sender, unbounded};
use pavlov_learn::base::{Error, Result, catch};
use std::time::Duration;

/// Rollout workers on threads of this process, one thread per worker.
#[derive(Debug)]
pub struct ThreadPool {
    spec: WorkerSpec,
    workers: Vec<Handle>,
    /// Completions of all workers.
    completions: Receiver<Completion>,
    /// Sender of `completions`, of which every thread gets a clone.
    send_completions: Sender<Completion>,
    /// Number of requests so far, which is the number of the last request.
    requests: u64,
}

/// The thread of one worker.
#[derive(Debug)]
struct Handle {
    /// Sends requests, with their numbers, to the thread of the worker.
    requests: Sender<(u64, Request)>,
    /// Number of times that the worker was replaced.
    incarnation: u64,
}

impl ThreadPool {
    /// Starts `workers` threads and, with `validate_workers_after_construction`, waits until every worker has its
    /// environments.
    ///
    /// # Errors
    /// Returns [`Error::Worker`] if a thread cannot be started, or if a worker cannot make its environment or
    /// policies or is not ready in `worker_health_probe_timeout_s`.
    pub fn new(spec: WorkerSpec, workers: usize) -> Result<Self> {
        let (send_completions, completions) = unbounded();
        let common = spec.names.common.clone();
        let mut pool = Self { spec, workers: Vec::new(), completions, send_completions, requests: 0 };
        let mut starts = Vec::new();
        for worker in 0..workers {
            let (handle, start) = pool.spawn(worker, 0)?;
            pool.workers.push(handle);
            starts.push(start);
        }
        validate(&mut pool, starts, &common)?;
        Ok(pool)
    }

    /// Starts the thread of a worker; returns its handle, and the number of the request that stands for its start.
    fn spawn(&mut self, worker: usize, incarnation: u64) -> Result<(Handle, u64)> {
        self.requests += 1;
        let start = self.requests;
        let (requests, inbox) = unbounded::<(u64, Request)>();
        let spec = self.spec.clone();
        let completions = self.send_completions.clone();
        let run = move || {
            let send = |request, result| {
                completions.send(Completion { worker, incarnation, request, result }).is_ok()
            };
            let during = || format!("making the environments of worker {}", worker + 1);
            let mut rollout_worker =
                catch(during, || RolloutWorker::new(spec, worker + 1)).map_err(|error| Fault::of_end(&error));
            send(start, rollout_worker.as_ref().map(|_| Reply::Done).map_err(Fault::clone));
            // The loop ends when the pool drops its sender.
            for (request, body) in inbox {
                let alive = match &mut rollout_worker {
                    Ok(alive) => alive,
                    Err(fault) => {
                        send(request, Err(fault.clone()));
                        continue;
                    }
                };
                let result = match catch(|| format!("worker {}", worker + 1), || alive.handle(body)) {
                    Ok(reply) => Ok(reply),
                    Err(error @ Error::Panic { .. }) => {
                        let fault = Fault::of_end(&error);
                        rollout_worker = Err(fault.clone());
                        Err(fault)
                    }
                    Err(error) => Err(Fault::of(&error)),
                };
                if !send(request, result) {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name(format!("worker-{}", worker + 1))
            .spawn(run)
            .map_err(|e| Error::Worker { worker: worker + 1, reason: format!("no thread for it: {e}") })?;
        Ok((Handle { requests, incarnation }, start))
    }
}

impl WorkerPool for ThreadPool {
    fn len(&self) -> usize {
        self.workers.len()
    }

    fn submit(&mut self, worker: usize, request: Request) -> Result<u64> {
        self.requests += 1;
        let id = self.requests;
        if self.workers[worker].requests.send((id, request)).is_err() {
            // The caller gets this fault by `next`, as every failure of a worker.
            let incarnation = self.workers[worker].incarnation;
            let result = Err(Fault::Dead("its thread has ended".into()));
            let _ = self.send_completions.send(Completion { worker, incarnation, request: id, result });
        }
        Ok(id)
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completion>> {
        match timeout {
            // The pool holds a sender itself, so `recv` cannot fail.
            None => Ok(self.completions.recv().ok()),
            Some(timeout) => Ok(self.completions.recv_timeout(timeout).ok()),
        }
    }

    fn respawn(&mut self, worker: usize) -> Result<u64> {
        let (handle, start) = self.spawn(worker, self.workers[worker].incarnation + 1)?;
        self.workers[worker] = handle;
        Ok(start)
    }

    fn incarnation(&self, worker: usize) -> u64 {
        self.workers[worker].incarnation
    }
}
