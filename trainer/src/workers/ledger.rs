//! Counters, timers, finished episodes and where the time went: what a result is made of.

use crate::base::{Breakdown, Episode, Result, SamplerPerf, State, lock};
use crate::experience::TrainBatch;
use crate::sample::Sampled;
use crate::workers::metrics::{Counters, Sizes, Timers};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The book of a run: steps of a plan write in it, a result reads it. A clone is another handle to it.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    counters: Counters,
    timers: Timers,
    /// Since the iteration began.
    perf: SamplerPerf,
    episodes: Vec<Episode>,
    lag: Lag,
    /// Batches that waited for the learner thread, if there is one.
    learner_queue: Option<Sizes>,
    /// Environment steps since policies that learn got a row.
    steps_without_rows: u64,
}

/// How old the weights were that the trained rows were made with, since the iteration began.
#[derive(Clone, Copy, Debug, Default)]
struct Lag {
    /// Versions, summed up over environment steps.
    versions: u64,
    env_steps: u64,
}

impl Ledger {
    /// The counters as they stand.
    pub fn counters(&self) -> Counters {
        lock(&self.0).counters.clone()
    }

    /// Changes the counters.
    pub fn count(&self, f: impl FnOnce(&mut Counters)) {
        f(&mut lock(&self.0).counters);
    }

    /// Records how long something took.
    pub fn time(&self, name: &'static str, start: Instant, units: u64) {
        lock(&self.0).timers.add(name, start, units);
    }

    /// The means of all timers, by name.
    pub fn timers(&self) -> serde_json::Map<String, serde_json::Value> {
        lock(&self.0).timers.report()
    }

    /// Fragments that so many workers sampled side by side: their steps, their episodes, what the mean worker's time went
    /// to.
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

    /// Environment steps since policies that learn got a row, before this batch and with it.
    pub(crate) fn steps_without_rows(&self, batch: &TrainBatch) -> (u64, u64) {
        let mut book = lock(&self.0);
        let before = book.steps_without_rows;
        book.steps_without_rows = if batch.rows() > 0 { 0 } else { before + batch.env_steps };
        (before, book.steps_without_rows)
    }

    /// A training batch, which learning has taken since `start`, when so many weights had been published.
    pub(crate) fn trained(&self, batch: &TrainBatch, version: u64, start: Instant) {
        let mut book = lock(&self.0);
        for source in &batch.sources {
            book.lag.versions += version.saturating_sub(source.version) * source.env_steps;
            book.lag.env_steps += source.env_steps;
        }
        book.counters.trained(batch);
        book.timers.add("learn", start, batch.rows() as u64);
    }

    /// The learner thread has learned from a batch, and so many wait.
    pub(crate) fn learner_queue(&self, waiting: usize) {
        lock(&self.0).learner_queue.get_or_insert_default().add(waiting);
    }

    /// How many batches waited for the learner thread; none without one.
    pub(crate) fn learner_queue_sizes(&self) -> Option<serde_json::Value> {
        lock(&self.0).learner_queue.as_ref().map(Sizes::report)
    }

    /// The episodes that ended since the last call.
    pub fn take_episodes(&self) -> Vec<Episode> {
        std::mem::take(&mut lock(&self.0).episodes)
    }

    /// Begins an iteration: what time went to before is forgotten.
    pub(crate) fn start_breakdown(&self) {
        let mut book = lock(&self.0);
        book.timers.restart_totals();
        (book.perf, book.lag) = (SamplerPerf::default(), Lag::default());
    }

    /// How many versions older than the newest the weights were that made the experience of this iteration's training, on
    /// average; none when what was learned from came from a replay buffer, or nothing was.
    pub(crate) fn policy_lag(&self) -> Option<f64> {
        let Lag { versions, env_steps } = lock(&self.0).lag;
        (env_steps > 0).then(|| versions as f64 / env_steps as f64)
    }

    /// What time went to since then, but for evaluation.
    pub(crate) fn breakdown(&self, total: Duration) -> Breakdown {
        let book = lock(&self.0);
        let timers = &book.timers;
        Breakdown {
            sample: timers.total("sample"),
            workers: book.perf,
            // Beside a learner thread, the trainer's own only waits for it.
            learn: timers.total(if book.learner_queue.is_some() { "learn_wait" } else { "learn" }),
            sync: timers.total("synch_weights") + timers.total("synch_filters"),
            evaluate: Duration::ZERO,
            total,
        }
    }

    /// What the mean worker's time went to in this iteration.
    pub(crate) fn sampler_perf(&self) -> SamplerPerf {
        lock(&self.0).perf
    }

    /// Counters and episodes, into the state of the run.
    pub(crate) fn save(&self, run: &mut State) -> Result<()> {
        let book = lock(&self.0);
        run.set("counters", &book.counters)?;
        run.set("episodes", &book.episodes)
    }

    /// What [`save`](Self::save) saved.
    pub(crate) fn restore(&self, run: &State) -> Result<()> {
        let (counters, episodes) = (run.get::<Counters>("counters")?, run.get("episodes")?);
        let mut book = lock(&self.0);
        (book.counters, book.episodes) = (counters.completed(), episodes);
        Ok(())
    }
}
