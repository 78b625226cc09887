//! Learning steps: minibatch epochs over a fresh batch, or one step on a replayed one.

use super::replay::Replayed;
use crate::{
    base::{
        batch::SampleBatch,
        error::{Error, Result},
        rng::Stream,
        train_batch::TrainBatch,
    },
    plan::learner_info::LearnerInfo,
    workers::{WorkerSet, learners::Learners},
};
use std::{collections::BTreeMap, sync::Arc, time::Instant};
use tch::{Device, Tensor};

/// `num_sgd_iter` passes over the rows of every policy in minibatches of `sgd_minibatch_size` rows (0: all of them).
///
/// Before each pass the policy prepares the rows, and they are shuffled anew; units of a recurrent policy stay whole, and
/// a short rest is left out of that pass. A policy that reports to have moved far enough
/// ([`Learned::stop`](crate::policy::Learned::stop)) ends its passes early.
pub fn train_epochs(
    workers: &WorkerSet,
    num_sgd_iter: usize,
    sgd_minibatch_size: usize,
) -> impl FnMut(TrainBatch) -> Result<LearnerInfo> + Send + use<> {
    let (learners, ledger) = (workers.learners.clone(), workers.ledger.clone());
    let device = if workers.common().num_gpus > 0 { Device::cuda_if_available() } else { Device::Cpu };
    move |batch| {
        let start = Instant::now();
        let mut info = LearnerInfo::default();
        for (id, rows) in batch.policies.iter().filter(|(_, rows)| rows.rows() > 0) {
            let rows = rows.to_device(device);
            passes(&learners, id, &rows, num_sgd_iter, sgd_minibatch_size, &mut info)?;
            info.trained(id, rows.rows());
        }
        ledger.trained(&batch, learners.published().version, start);
        Ok(info)
    }
}

fn passes(
    learners: &Learners,
    id: &str,
    batch: &SampleBatch,
    num_sgd_iter: usize,
    sgd_minibatch_size: usize,
    info: &mut LearnerInfo,
) -> Result<()> {
    let (rows, unit) = (batch.rows(), learners.lend_policy(id, |policy| policy.unit())?);
    if unit == 0 || !rows.is_multiple_of(unit) {
        let reason = format!("it has {rows} rows, but policy `{id}` learns from units of {unit}");
        return Err(Error::state("a training batch", reason));
    }
    let size = if sgd_minibatch_size == 0 { rows } else { sgd_minibatch_size.min(rows) };
    let size = (size / unit).max(1) * unit;
    for _ in 0..num_sgd_iter {
        let mut batch = batch.slice(0, rows);
        learners.lend_policy(id, |policy| policy.prepare(&mut batch))??;
        let order = learners.rng(|rng| shuffled_units(rng, rows, unit));
        let shuffled = if rows == size { batch } else { batch.select(&order) };
        for i in 0..rows / size {
            let (learned, custom) = learners.learn_on_batch(id, &shuffled.slice(i * size, size))?;
            let stop = learned.stop;
            info.add(id, learned, custom);
            if stop {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// All rows, unit by unit in a random order.
fn shuffled_units(rng: &mut Stream, rows: usize, unit: usize) -> Arc<[i64]> {
    let order = rng.permutation(rows / unit);
    match unit {
        1 => order.into(),
        _ => order.iter().flat_map(|&u| (0..unit as i64).map(move |i| u * unit as i64 + i)).collect(),
    }
}

/// One optimizer step on a replayed batch, which its policy prepares first; nothing while the buffer is still filling.
pub fn train_on_replay(
    workers: &WorkerSet,
) -> impl FnMut(Option<TrainBatch>) -> Result<Option<Replayed>> + Send + use<> {
    let (learners, ledger) = (workers.learners.clone(), workers.ledger.clone());
    move |batch| {
        let Some(mut batch) = batch else { return Ok(None) };
        let start = Instant::now();
        let (mut info, mut td_errors) = (LearnerInfo::default(), BTreeMap::new());
        for (id, rows) in batch.policies.iter_mut().filter(|(_, rows)| rows.rows() > 0) {
            learners.lend_policy(id, |policy| policy.prepare(rows))??;
            let (learned, custom) = learners.learn_on_batch(id, rows)?;
            td_errors
                .extend(learned.td_errors.as_ref().map(|errors| (id.clone(), Tensor::shallow_clone(errors))));
            info.add(id, learned, custom);
            info.trained(id, rows.rows());
        }
        ledger.trained(&batch, learners.published().version, start);
        Ok(Some(Replayed { batch, td_errors, info }))
    }
}
