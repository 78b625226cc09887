//! `sync_weights`, `broadcast_weights`: send the learner's weights to every worker.

use crate::plan::learner_info::LearnerInfo;
use crate::workers::WorkerSet;
use pavlov_learn::base::Result;

/// Returns a step that sends the learner's weights to all workers after each item on which something was learned, and
/// waits until the workers have them.
pub fn sync_weights(workers: &WorkerSet) -> impl FnMut(LearnerInfo) -> Result<LearnerInfo> + Send + use<> {
    let workers = workers.clone();
    move |info| {
        workers.sync_weights()?;
        Ok(info)
    }
}

/// Returns a step that publishes the learner's weights after every `interval` items on which something was learned,
/// for [`rollouts_async`](WorkerSet::rollouts_async). The plan does not wait: a worker gets the weights with its next
/// request for a fragment, and fragments that were requested before use older weights.
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
