//! Workers on threads of this process. Batches and weights are handed over, never serialised.

use super::{Completion, Fault, WorkerPool};
use crate::{
    base::error::{Error, Result, catch},
    sample::worker::{Request, RolloutWorker, WorkerSpec},
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::time::Duration;

/// One thread per worker.
#[derive(Debug)]
pub struct ThreadPool {
    spec: WorkerSpec,
    workers: Vec<Handle>,
    completions: Receiver<Completion>,
    send_completions: Sender<Completion>,
    requests: u64,
}

#[derive(Debug)]
struct Handle {
    requests: Sender<(u64, Request)>,
    incarnation: u64,
}

impl ThreadPool {
    /// Starts `workers` threads and waits until every one has its environments.
    ///
    /// # Errors
    /// Fails if the environment or a policy of a worker cannot be made, or a hook fails. Returns [`Error::Worker`] if
    /// there is no thread for one.
    pub fn new(spec: WorkerSpec, workers: usize) -> Result<Self> {
        let (send_completions, completions) = unbounded();
        let mut pool = Self { spec, workers: Vec::new(), completions, send_completions, requests: 0 };
        let started: Vec<Receiver<Result<()>>> = (0..workers)
            .map(|i| {
                let (handle, started) = pool.spawn(i, 0)?;
                pool.workers.push(handle);
                Ok(started)
            })
            .collect::<Result<_>>()?;
        for (i, started) in started.into_iter().enumerate() {
            wait(i, &started)?;
        }
        Ok(pool)
    }

    fn spawn(&self, worker: usize, incarnation: u64) -> Result<(Handle, Receiver<Result<()>>)> {
        let (requests, inbox) = unbounded::<(u64, Request)>();
        let (ready, started) = unbounded();
        let (spec, completions) = (self.spec.clone(), self.send_completions.clone());
        let run = move || {
            let during = || format!("making the environments of worker {}", worker + 1);
            let made = catch(during, || RolloutWorker::new(spec, worker + 1));
            let mut rollout_worker = match made {
                Ok(made) => made,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(()));
            // The loop ends when the pool drops its sender.
            for (request, body) in inbox {
                let result = catch(|| format!("worker {}", worker + 1), || rollout_worker.handle(body));
                let (result, dead) = match result {
                    Ok(reply) => (Ok(reply), false),
                    Err(error @ Error::Panic { .. }) => (Err(Fault::Dead(error.to_string())), true),
                    Err(error) => (Err(Fault::App(error.to_string())), false),
                };
                if completions.send(Completion { worker, incarnation, request, result }).is_err() || dead {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name(format!("worker-{}", worker + 1))
            .spawn(run)
            .map_err(|e| Error::Worker { worker: worker + 1, reason: format!("no thread for it: {e}") })?;
        Ok((Handle { requests, incarnation }, started))
    }
}

fn wait(worker: usize, started: &Receiver<Result<()>>) -> Result<()> {
    let gone = || Error::Worker { worker: worker + 1, reason: "its thread ended while starting".into() };
    started.recv().map_err(|_| gone())?
}

impl WorkerPool for ThreadPool {
    fn len(&self) -> usize {
        self.workers.len()
    }

    fn submit(&mut self, worker: usize, request: Request) -> Result<u64> {
        self.requests += 1;
        let id = self.requests;
        if self.workers[worker].requests.send((id, request)).is_err() {
            // The thread has ended; its caller learns of it where it learns of every failure.
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
        let incarnation = self.workers[worker].incarnation + 1;
        let (handle, started) = self.spawn(worker, incarnation)?;
        self.workers[worker] = handle;
        wait(worker, &started)?;
        Ok(incarnation)
    }

    fn incarnation(&self, worker: usize) -> u64 {
        self.workers[worker].incarnation
    }
}
