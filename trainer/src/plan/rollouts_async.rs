//! `rollouts_async`: yields single fragments while workers continue to sample (Ray's ParallelRollouts in async mode).

use crate::base::Result;
use crate::experience::TrainBatch;
use crate::workers::{Order, WorkerSet};

/// The iterator that [`WorkerSet::rollouts_async`] returns.
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct RolloutsAsync {
    workers: WorkerSet,
    in_flight: usize,
    order: Order,
}

impl WorkerSet {
    /// Yields a fragment of one worker per pull. When a fragment is taken, its worker is asked for another one, so
    /// that each worker always has `in_flight` (at least 1) fragments waiting or under way, and workers never wait
    /// for learning.
    ///
    /// A fragment is made with the weights that were published when the fragment was requested: `in_flight` fragments
    /// of that worker earlier. Without rollout workers this is [`rollouts`](Self::rollouts), and no weights are old.
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
