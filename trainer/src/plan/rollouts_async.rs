//! `rollouts_async`: one fragment after the other, while workers go on (Ray's ParallelRollouts in async mode).

use crate::base::Result;
use crate::experience::TrainBatch;
use crate::workers::{Order, WorkerSet};

/// Created by [`WorkerSet::rollouts_async`].
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct RolloutsAsync {
    workers: WorkerSet,
    in_flight: usize,
    order: Order,
}

impl WorkerSet {
    /// A fragment of one worker per pull. At the moment it is taken its worker is asked for the next one, so that
    /// `in_flight` (at least 1) of each worker are under way or waiting, and workers never wait for learning.
    ///
    /// A fragment is made with the weights that were published when it was asked for: `in_flight` fragments of that worker
    /// earlier. Without rollout workers it is [`rollouts`](Self::rollouts), and nothing is old.
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
