//! `rollouts_async`: yields single fragments while workers continue to sample (Ray's ParallelRollouts in async mode).

use crate::experience::TrainBatch;
use crate::workers::{Order, WorkerSet};
use pavlov_learn::base::Result;

/// The iterator that [`WorkerSet::rollouts_async`] returns.
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct RolloutsAsync {
    workers: WorkerSet,
    in_flight: usize,
    order: Order,
}

impl WorkerSet {
    /// Returns an endless iterator that yields a fragment of one worker per pull. When a fragment is taken, its
    /// worker is asked for another one. So each worker always has `in_flight` (at least 1) fragments waiting or under
    /// way, and never waits for learning.
    ///
    /// A fragment is sampled with the weights that were published when it was requested, which was `in_flight`
    /// fragments of that worker earlier. Without rollout workers this method does the same as
    /// [`rollouts`](Self::rollouts), with current weights.
    pub fn rollouts_async(&self, in_flight: usize, order: Order) -> RolloutsAsync {
        self.learners.publish_first();
        RolloutsAsync { workers: self.clone(), in_flight: in_flight.max(1), order }
    }
}

impl Iterator for RolloutsAsync {
    type Item = Result<TrainBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.workers.sample_next(self.in_flight, self.order))
    }
}
