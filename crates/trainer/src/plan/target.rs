//! `update_target`: updates target networks from the online networks, at intervals of sampled steps.

use crate::plan::learner_info::LearnerInfo;
use crate::workers::WorkerSet;
use pavlov_learn::base::Result;

/// Returns a step that updates the target network of every policy that has learned, if at least `freq` environment
/// steps were sampled since the last update of that network. With `freq` 0 it updates after every item.
pub fn update_target(
    workers: &WorkerSet,
    freq: u64,
) -> impl FnMut(LearnerInfo) -> Result<LearnerInfo> + Send + use<> {
    let learners = workers.learners.clone();
    let ledger = workers.ledger.clone();
    move |info| {
        for (id, _) in info.policies() {
            let counters = ledger.counters();
            let now = counters.num_env_steps_sampled;
            if now < counters.of_policy(id).last_target_update_ts + freq {
                continue;
            }
            learners.update_target(id)?;
            ledger.count(|c| c.target_updated(id));
        }
        Ok(info)
    }
}
