//! Learning steps: minibatch epochs over a fresh batch, or one step on a replayed one.

use super::replay::Replayed;
use crate::{
    base::{batch::SampleBatch, error::Result},
    plan::learner_info::LearnerInfo,
    policy::DEFAULT_POLICY,
    workers::WorkerSet,
};
use std::time::Instant;
use tch::{Device, Tensor};

/// `num_sgd_iter` passes over the batch in minibatches of `sgd_minibatch_size` rows (0: the whole batch).
///
/// Rows are shuffled anew for every pass; a short rest is left out of that pass. A policy that reports to have moved
/// far enough ([`LearnerInfo::stop`]) ends the passes early.
pub fn train_epochs(
    workers: &WorkerSet,
    num_sgd_iter: usize,
    sgd_minibatch_size: usize,
) -> impl FnMut(SampleBatch) -> Result<LearnerInfo> + Send + use<> {
    let workers = workers.clone();
    move |batch| {
        let start = Instant::now();
        let rows = batch.rows();
        let size = if sgd_minibatch_size == 0 { rows } else { sgd_minibatch_size.min(rows) };
        let device = if workers.common().num_gpus > 0 { Device::cuda_if_available() } else { Device::Cpu };
        let batch = batch.to_device(device);
        let mut info = LearnerInfo::default();
        'passes: for _ in 0..num_sgd_iter {
            let order = workers.learners.rng(|rng| rng.permutation(rows)).into();
            let shuffled = if rows == size { batch.slice(0, rows) } else { batch.select(&order) };
            for i in 0..rows / size {
                let (learned, custom) =
                    workers.learners.learn_on_batch(DEFAULT_POLICY, &shuffled.slice(i * size, size))?;
                info.add(learned, custom);
                if info.stop() {
                    break 'passes;
                }
            }
        }
        info.trained(rows);
        workers.ledger.count(|c| c.num_env_steps_trained += rows as u64);
        workers.ledger.time("learn", start, rows as u64);
        Ok(info)
    }
}

/// One optimizer step on a replayed batch; nothing while the buffer is still filling.
pub fn train_on_replay(
    workers: &WorkerSet,
) -> impl FnMut(Option<SampleBatch>) -> Result<Option<Replayed>> + Send + use<> {
    let workers = workers.clone();
    move |batch| {
        let Some(batch) = batch else { return Ok(None) };
        let start = Instant::now();
        let (learned, custom) = workers.learners.learn_on_batch(DEFAULT_POLICY, &batch)?;
        let rows = batch.rows();
        let mut info = LearnerInfo::default();
        let td_errors = learned.td_errors.as_ref().map(Tensor::shallow_clone);
        info.add(learned, custom);
        info.trained(rows);
        workers.ledger.count(|c| c.num_env_steps_trained += rows as u64);
        workers.ledger.time("learn", start, rows as u64);
        Ok(Some(Replayed { batch, td_errors, info }))
    }
}
