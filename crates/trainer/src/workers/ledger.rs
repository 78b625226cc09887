//! [`Ledger`]: counters, timers, finished episodes and the time spent by phase, from which a result is made.

use crate::base::{Breakdown, Episode, SamplerPerf};
use crate::experience::TrainBatch;
use crate::sample::Sampled;
use crate::workers::metrics::{Counters, Sizes, Timers};
use pavlov_learn::base::{Result, State, lock};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The counters, timers and finished episodes of a run, which steps of a plan write and results read. A clone shares
/// them.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

/// The counters, timers and episodes of a [`Ledger`].
#[derive(Debug, Default)]
struct Book {
    counters: Counters,
    timers: Timers,
    /// Mean time that workers have spent on each phase of sampling, since the iteration began.
    perf: SamplerPerf,
    /// Episodes that ended since the last result.
    episodes: Vec<Episode>,
    /// Age of the weights that the trained rows were sampled with.
    lag: Lag,
    /// Numbers of batches that waited for the learner thread, one number per learned batch; `None` without the thread.
    learner_queue: Option<Sizes>,
    /// Number of environment steps sampled since the last row of a policy that learns.
    steps_without_rows: u64,
}

/// Age of the weights that the trained rows were sampled with, since the iteration began.
#[derive(Clone, Copy, Debug, Default)]
struct Lag {
    /// Number of published versions by which weights were behind the newest ones, summed over environment steps.
    versions: u64,
    /// Number of environment steps over which `versions` is summed.
    env_steps: u64,
}

impl Ledger {
    /// Returns a copy of the counters.
    pub fn counters(&self) -> Counters {
        lock(&self.0).counters.clone()
    }

    /// Calls `f` with the counters, to change them.
    pub fn count(&self, f: impl FnOnce(&mut Counters)) {
        f(&mut lock(&self.0).counters);
    }

    /// Records the time from `start` to now for the timer `name`, in which `units` units of work were done.
    pub fn time(&self, name: &'static str, start: Instant, units: u64) {
        lock(&self.0).timers.add(name, start, units);
    }

    /// The moving means of all timers, by name.
    pub fn timers(&self) -> serde_json::Map<String, serde_json::Value> {
        lock(&self.0).timers.report()
    }

    /// Records fragments that `workers` workers sampled in parallel: their steps, their episodes, and the time by phase
    /// as a mean over the workers.
    pub(crate) fn sampled(&self, parts: &mut [Sampled], workers: usize) {
        let mut book = lock(&self.0);
        let mut perf = SamplerPerf::default();
        for part in parts.iter_mut() {
            perf += part.perf;
            book.counters.sampled(&part.batch);
            book.episodes.append(&mut part.episodes);
        }
        book.perf += perf / (workers as u32).max(1);
    }

    /// Adds the environment steps of `batch` to those since the last row of a policy that learns. Returns the sum
    /// without and with `batch`; the latter is 0 if `batch` has rows of such a policy.
    pub(crate) fn steps_without_rows(&self, batch: &TrainBatch) -> (u64, u64) {
        let mut book = lock(&self.0);
        let before = book.steps_without_rows;
        book.steps_without_rows = if batch.rows() > 0 { 0 } else { before + batch.env_steps };
        (before, book.steps_without_rows)
    }

    /// Records that the time since `start` was spent on learning from a batch; `version` is the version of the newest
    /// published weights.
    pub(crate) fn trained(&self, batch: &TrainBatch, version: u64, start: Instant) {
        let mut book = lock(&self.0);
        for source in &batch.sources {
            book.lag.versions += version.saturating_sub(source.version) * source.env_steps;
            book.lag.env_steps += source.env_steps;
        }
        book.counters.trained(batch);
        book.timers.add("learn", start, batch.rows() as u64);
    }

    /// Records the number of batches left, `waiting`, after the learner thread has learned from one.
    pub(crate) fn learner_queue(&self, waiting: usize) {
        lock(&self.0).learner_queue.get_or_insert_default().add(waiting);
    }

    /// Statistics of the number of batches that wait for the learner thread; `None` without a learner thread.
    pub(crate) fn learner_queue_sizes(&self) -> Option<serde_json::Value> {
        lock(&self.0).learner_queue.as_ref().map(Sizes::report)
    }

    /// Returns the episodes that ended since the last call.
    pub fn take_episodes(&self) -> Vec<Episode> {
        std::mem::take(&mut lock(&self.0).episodes)
    }

    /// Begins an iteration: resets the times by phase, and the age of the weights.
    pub(crate) fn start_breakdown(&self) {
        let mut book = lock(&self.0);
        book.timers.restart_totals();
        book.perf = SamplerPerf::default();
        book.lag = Lag::default();
    }

    /// Mean age of the weights that the training rows of this iteration were sampled with, in published versions.
    /// `None` if nothing was learned or all rows came from a replay buffer.
    pub(crate) fn policy_lag(&self) -> Option<f64> {
        let Lag { versions, env_steps } = lock(&self.0).lag;
        (env_steps > 0).then(|| versions as f64 / env_steps as f64)
    }

    /// The time spent on each phase since the iteration began, which took `total`; the time of evaluation is left at 0.
    pub(crate) fn breakdown(&self, total: Duration) -> Breakdown {
        let book = lock(&self.0);
        let timers = &book.timers;
        Breakdown {
            sample: timers.total("sample"),
            workers: book.perf,
            // With a learner thread, the plan's thread only waits, so that wait is counted.
            learn: timers.total(if book.learner_queue.is_some() { "learn_wait" } else { "learn" }),
            sync: timers.total("synch_weights") + timers.total("synch_filters"),
            evaluate: Duration::ZERO,
            total,
        }
    }

    /// Mean time that workers have spent on each phase of sampling, in this iteration.
    pub(crate) fn sampler_perf(&self) -> SamplerPerf {
        lock(&self.0).perf
    }

    /// Writes counters and finished episodes into the state of the run.
    pub(crate) fn save(&self, run: &mut State) -> Result<()> {
        let book = lock(&self.0);
        run.set("counters", &book.counters)?;
        run.set("episodes", &book.episodes)
    }

    /// Restores the counters and finished episodes that [`save`](Self::save) wrote.
    pub(crate) fn restore(&self, run: &State) -> Result<()> {
        let counters = run.get::<Counters>("counters")?;
        let episodes = run.get("episodes")?;
        let mut book = lock(&self.0);
        book.counters = counters.completed();
        book.episodes = episodes;
        Ok(())
    }
}
