//! `train_epochs`: learns from a fresh batch in several passes of minibatches.

use crate::base::Result;
use crate::experience::{SampleBatch, TrainBatch};
use crate::plan::learner_info::LearnerInfo;
use crate::workers::{Learners, WorkerSet};
use std::time::Instant;

/// Returns a step that makes `num_sgd_iter` passes over the rows of every policy, in minibatches of
/// `sgd_minibatch_size` rows (0: all rows in one).
///
/// Before each pass the policy prepares the rows, and the rows are shuffled again. Sequences of a recurrent policy
/// stay whole. Rows that do not fill a minibatch are left out of that pass. A policy whose report has
/// [`Learned::stop`](crate::policy::Learned::stop) ends its passes early.
pub fn train_epochs(
    workers: &WorkerSet,
    num_sgd_iter: usize,
    sgd_minibatch_size: usize,
) -> impl FnMut(TrainBatch) -> Result<LearnerInfo> + Send + use<> {
    let learners = workers.learners.clone();
    let ledger = workers.ledger.clone();
    move |batch| {
        let start = Instant::now();
        let mut info = LearnerInfo::default();
        passes(&learners, &batch, (num_sgd_iter, sgd_minibatch_size), &mut info)?;
        batch.policies.iter().for_each(|(id, rows)| info.trained(id, rows.rows()));
        ledger.trained(&batch, learners.published().version, start);
        Ok(info)
    }
}

/// Makes `num_sgd_iter` passes over every policy's rows in minibatches of `sgd_minibatch_size` rows (0: all rows in
/// one), and adds the reports to `info`.
pub(crate) fn passes(
    learners: &Learners,
    batch: &TrainBatch,
    (num_sgd_iter, sgd_minibatch_size): (usize, usize),
    info: &mut LearnerInfo,
) -> Result<()> {
    for (id, all) in batch.policies.iter().filter(|(_, rows)| rows.rows() > 0) {
        let rows = all.rows();
        let size = if sgd_minibatch_size == 0 { rows } else { sgd_minibatch_size.min(rows) };
        'passes: for _ in 0..num_sgd_iter {
            let mut batch = all.slice(0, rows);
            learners.lend_policy(id, |policy| policy.prepare(&mut batch))??;
            let order = learners.rng(|rng| rng.permutation(batch.sequences().map_or(rows, <[usize]>::len)));
            let shuffled = if rows == size { batch } else { batch.select_sequences(order) };
            for (start, len) in minibatches(&shuffled, size) {
                let (learned, custom) = learners.learn_on_batch(id, &shuffled.slice(start, len))?;
                let stop = learned.stop;
                info.add(id, learned, custom);
                if stop {
                    break 'passes;
                }
            }
        }
    }
    Ok(())
}

/// First row and number of rows of each minibatch of `size` rows; rows that do not fill a minibatch are left out.
/// Sequences stay whole: a minibatch has as many sequences as would fit if all were as long as the longest.
fn minibatches(batch: &SampleBatch, size: usize) -> Vec<(usize, usize)> {
    let Some(lengths) = batch.sequences() else {
        return (0..batch.rows() / size).map(|i| (i * size, size)).collect();
    };
    let several = (size / lengths.iter().max().copied().unwrap_or(1)).max(1);
    let mut start = 0;
    let rows = |lengths: &[usize]| {
        let len = lengths.iter().sum::<usize>();
        start += len;
        (start - len, len)
    };
    lengths.chunks_exact(several.min(lengths.len())).map(rows).collect()
}
