//! `update_target`: the online network into the target network, every so many sampled steps.

use crate::{base::error::Result, plan::learner_info::LearnerInfo, workers::WorkerSet};

/// Updates the targets of all policies when `freq` environment steps were sampled since the last time; with 0 after
/// every learning step. Rounds that learned nothing update nothing.
pub fn update_target(
    workers: &WorkerSet,
    freq: u64,
) -> impl FnMut(LearnerInfo) -> Result<LearnerInfo> + Send + use<> {
    let workers = workers.clone();
    move |info| {
        let counters = workers.counters();
        let due = counters.num_env_steps_sampled >= counters.last_target_update_ts + freq;
        if due && !info.is_empty() {
            workers.learners.lend(|policies, _| policies.iter_mut().for_each(|(_, p)| p.update_target()));
            workers.ledger.count(|c| {
                c.num_target_updates += 1;
                c.last_target_update_ts = c.num_env_steps_sampled;
            });
        }
        Ok(info)
    }
}
