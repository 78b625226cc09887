//! [`check_worker_pool`]: a check that a transport keeps its contract.

use crate::sample::{Reply, Request, Sampled};
use crate::workers::transport::pool::{Completion, Fault, WorkerPool};
use pavlov_learn::base::{Error, Result, State, Weights};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Checks that a pool keeps the contract of [`WorkerPool`]. It must be new and have at least two workers; `weights` are
/// weights of their policies. Every answer must come within `patience`.
///
/// # Errors
/// Returns [`Error::State`] with the first rule that the pool breaks.
pub fn check_worker_pool(pool: &mut dyn WorkerPool, weights: &Weights, patience: Duration) -> Result<()> {
    Check { pool, patience }.run(weights)
}

/// A pool to check, and the longest time to wait for an answer.
struct Check<'a> {
    pool: &'a mut dyn WorkerPool,
    patience: Duration,
}

impl Check<'_> {
    fn run(&mut self, weights: &Weights) -> Result<()> {
        self.rule(self.pool.len() >= 2, "it has fewer than two workers: the check needs two")?;
        self.rule(self.pool.incarnation(0) == 0, "a new worker is not in its first life")?;
        self.answers_come_in_order_and_once()?;
        self.what_is_sent_arrives(weights)?;
        self.a_worker_survives_an_error()?;
        self.a_new_life_begins_anew(weights)
    }

    fn rule(&self, holds: bool, broken: &str) -> Result<()> {
        if holds { Ok(()) } else { Err(Error::state("the worker pool", broken)) }
    }

    fn answers_come_in_order_and_once(&mut self) -> Result<()> {
        let mut owed = vec![VecDeque::new(); self.pool.len()];
        for timestep in 0..3 {
            for (worker, owed) in owed.iter_mut().enumerate() {
                owed.push_back(self.pool.submit(worker, Request::Sample { timestep })?);
                owed.push_back(self.pool.submit(worker, Request::FlushFilters)?);
            }
        }
        while owed.iter().any(|owed| !owed.is_empty()) {
            let Completion { worker, request, result, .. } = self.next()?;
            let next = owed[worker].pop_front();
            let is_fragment = owed[worker].len() % 2 == 1;
            self.rule(
                next == Some(request),
                "a request is not answered in its turn, or it is answered twice",
            )?;
            let fits = match result {
                Ok(Reply::Sample(_)) => is_fragment,
                Ok(Reply::Filters(_)) => !is_fragment,
                _ => false,
            };
            self.rule(fits, "a request is answered with what another asks for")?;
        }
        let more = self.pool.next(Some(self.patience / 10))?;
        self.rule(more.is_none(), "something is answered that was not asked, or it is answered twice")
    }

    fn what_is_sent_arrives(&mut self, weights: &Weights) -> Result<()> {
        let state = match self.ask(0, Request::GetState)? {
            Ok(Reply::State(state)) => Arc::new(state),
            _ => return self.rule(false, "a worker's state does not come"),
        };
        let first = self.fragment(0)?;
        self.done(0, Request::SetState(Arc::clone(&state)))?;
        let again = self.fragment(0)?;
        let same = rows(&first)? == rows(&again)?;
        self.rule(same, "a worker that is given its state again does not sample the same rows again")?;
        for (sent, kept) in [(7, 7), (3, 7)] {
            self.done(0, Request::SetWeights { version: sent, weights: Arc::clone(weights) })?;
            let version = self.fragment(0)?.version;
            self.rule(
                version == kept,
                "a fragment does not say the newest weights that its worker was sent",
            )?;
        }
        Ok(())
    }

    fn a_worker_survives_an_error(&mut self) -> Result<()> {
        let wrong = self.ask(1, Request::SetState(Arc::default()))?;
        self.rule(
            matches!(wrong, Err(Fault::App(_))),
            "a state that does not fit is not reported as an error",
        )?;
        self.fragment(1).map(drop)
    }

    fn a_new_life_begins_anew(&mut self, weights: &Weights) -> Result<()> {
        self.done(0, Request::SetWeights { version: 8, weights: Arc::clone(weights) })?;
        let other = self.pool.submit(1, Request::Sample { timestep: 0 })?;
        let old = self.pool.submit(0, Request::Sample { timestep: 0 })?;
        let start = self.pool.respawn(0)?;
        self.rule(self.pool.incarnation(0) == 1, "a worker that began a new life is not in its second")?;
        let sample = self.pool.submit(0, Request::Sample { timestep: 0 })?;
        let mut waiting = vec![(0, start), (0, sample), (1, other)];
        while !waiting.is_empty() {
            let Completion { worker, incarnation, request, result } = self.next()?;
            if (worker, incarnation, request) == (0, 0, old) {
                continue;
            }
            let lives = self.pool.incarnation(worker) == incarnation;
            self.rule(lives, "a completion has the number of another life")?;
            let known = waiting.len();
            waiting.retain(|asked| *asked != (worker, request));
            self.rule(
                waiting.len() < known,
                "something is answered that was not asked, or it is answered twice",
            )?;
            match result {
                Ok(Reply::Done) => self.rule(request == start, "a fragment is answered without one")?,
                Ok(Reply::Sample(sampled)) if request == sample => {
                    self.rule(sampled.version == 0, "a new life does not begin with the initial weights")?;
                }
                Ok(Reply::Sample(_)) => self.rule(request == other, "a start is answered with a fragment")?,
                _ => self.rule(false, "another life's end is a fault of a life that goes on")?,
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Completion> {
        let next = self.pool.next(Some(self.patience))?;
        next.ok_or_else(|| Error::state("the worker pool", "a request is never answered"))
    }

    fn ask(&mut self, worker: usize, request: Request) -> Result<Result<Reply, Fault>> {
        let number = self.pool.submit(worker, request)?;
        let Completion { worker: by, request, result, .. } = self.next()?;
        self.rule((by, request) == (worker, number), "a request is answered by another worker, or twice")?;
        Ok(result)
    }

    fn done(&mut self, worker: usize, request: Request) -> Result<()> {
        let answer = self.ask(worker, request)?;
        self.rule(matches!(answer, Ok(Reply::Done)), "what a worker is sent is not taken over")
    }

    fn fragment(&mut self, worker: usize) -> Result<Sampled> {
        match self.ask(worker, Request::Sample { timestep: 0 })? {
            Ok(Reply::Sample(sampled)) => Ok(sampled),
            _ => Err(Error::state("the worker pool", "a fragment does not come")),
        }
    }
}

fn rows(sampled: &Sampled) -> Result<State> {
    let mut state = State::default();
    sampled.batch.save(&mut state)?;
    Ok(state)
}
