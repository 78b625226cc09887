//! `after_training`: policies adapt settings to the statistics of their training batch (Ray's UpdateKL, for any
//! setting).

use crate::base::Result;
use crate::plan::learner_info::LearnerInfo;
use crate::workers::WorkerSet;

/// Returns a step that tells every policy that learned the means of the statistics that it reported.
pub fn after_training(workers: &WorkerSet) -> impl FnMut(LearnerInfo) -> Result<LearnerInfo> + Send + use<> {
    let learners = workers.learners.clone();
    move |info| {
        for (id, learned) in info.policies() {
            let means = learned.means();
            learners.after_training(id, &means)?;
        }
        Ok(info)
    }
}
