//! `update_kl`: the KL penalty's coefficient follows the KL that was measured (Ray's UpdateKL).

use crate::{
    base::error::Result, plan::learner_info::LearnerInfo, policy::DEFAULT_POLICY, workers::WorkerSet,
};

/// Tells the policy the mean of its `kl` statistic over the training batch.
pub fn update_kl(workers: &WorkerSet) -> impl FnMut(LearnerInfo) -> Result<LearnerInfo> + Send + use<> {
    let workers = workers.clone();
    move |info| {
        let means = info.means();
        workers.with_policy(DEFAULT_POLICY, |policy| policy.after_training(&means))?;
        Ok(info)
    }
}
