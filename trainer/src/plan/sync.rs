//! `sync_weights`, `broadcast_weights`: the learner's weights to every worker.

use crate::base::Result;
use crate::plan::learner_info::LearnerInfo;
use crate::workers::WorkerSet;

/// Sends weights after each item on which something was learned.
pub fn sync_weights(workers: &WorkerSet) -> impl FnMut(LearnerInfo) -> Result<LearnerInfo> + Send + use<> {
    let workers = workers.clone();
    move |info| {
        workers.sync_weights()?;
        Ok(info)
    }
}

/// Publishes weights after every `interval` items on which something was learned. The plan does not wait: a worker gets them with the
/// next request for a fragment, and what it was asked for before is made with the old ones. For
/// [`rollouts_async`](WorkerSet::rollouts_async).
pub fn broadcast_weights(
    workers: &WorkerSet,
    interval: usize,
) -> impl FnMut(LearnerInfo) -> Result<LearnerInfo> + Send + use<> {
    let workers = workers.clone();
    move |info| {
        workers.broadcast_weights(interval)?;
        Ok(info)
    }
}
