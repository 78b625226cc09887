//! `sync_weights`: the learner's weights to every worker.

use crate::{base::error::Result, plan::learner_info::LearnerInfo, workers::WorkerSet};

/// Sends weights after each item on which something was learned.
pub fn sync_weights(workers: &WorkerSet) -> impl FnMut(LearnerInfo) -> Result<LearnerInfo> + Send + use<> {
    let workers = workers.clone();
    move |info| {
        workers.sync_weights()?;
        Ok(info)
    }
}
