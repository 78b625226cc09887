//! `after_training`: lets policies adapt coefficients to the statistics of their training batch (as Ray's UpdateKL
//! does).

use crate::plan::learner_info::LearnerInfo;
use crate::workers::WorkerSet;
use pavlov_learn::base::Result;

/// Returns a step that calls [`Policy::after_training`](crate::policy::Policy::after_training) of every policy that
/// has learned, with the means of the statistics that this policy reported.
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
