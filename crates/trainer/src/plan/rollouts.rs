//! `rollouts`: samples one fragment with every worker per pull (Ray's ParallelRollouts in bulk_sync mode).

use crate::experience::TrainBatch;
use crate::workers::WorkerSet;
use pavlov_learn::base::Result;

/// The iterator that [`WorkerSet::rollouts`] returns.
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct Rollouts {
    workers: WorkerSet,
}

impl WorkerSet {
    /// Returns an endless iterator that samples one fragment with every worker per pull. Workers start with the
    /// learner's weights.
    pub fn rollouts(&self) -> Rollouts {
        Rollouts { workers: self.clone() }
    }
}

impl Iterator for Rollouts {
    type Item = Result<TrainBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.workers.sample())
    }
}
