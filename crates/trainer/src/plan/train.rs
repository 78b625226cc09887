//! `train_epochs`: learns from a fresh batch in several passes of minibatches.

use crate::experience::TrainBatch;
use crate::plan::learner_info::LearnerInfo;
use crate::workers::{Learners, WorkerSet};
use pavlov_learn::base::Result;
use pavlov_learn::experience::SampleBatch;
use std::time::Instant;

/// Returns a step that makes `num_sgd_iter` passes over the rows of every policy, in minibatches of about
/// `sgd_minibatch_size` rows (0: all rows in one).
///
/// Before each pass the policy prepares the rows, and the rows are shuffled again. Every pass learns from every row once,
/// in minibatches that are as equal as can be: 11 rows in minibatches of about 4 are 3, 4 and 4, and 9 rows are 4 and 5. (Ray
/// leaves out rows that do not fill a minibatch. Stable-Baselines3 learns from 4, 4 and 1, where the last row weighs four
/// times as much, and disturbs the optimizer.) Sequences of a recurrent policy stay whole; each row has the same weight in
/// its minibatch's loss, whatever the other sequences are. A policy whose report has
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

/// Makes `num_sgd_iter` passes over every policy's rows in minibatches of about `sgd_minibatch_size` rows (0: all
/// rows in one), and adds the reports to `info`.
pub(crate) fn passes(
    learners: &Learners,
    batch: &TrainBatch,
    (num_sgd_iter, sgd_minibatch_size): (usize, usize),
    info: &mut LearnerInfo,
) -> Result<()> {
    for (id, all) in batch.policies.iter().filter(|(_, rows)| rows.rows() > 0) {
        let size = sgd_minibatch_size;
        'passes: for _ in 0..num_sgd_iter {
            for minibatch in prepared_minibatches(learners, id, all, size)? {
                let (learned, custom) = learners.learn_on_batch(id, &minibatch)?;
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

/// The minibatches of one pass over the rows of the policy `id`, which it has prepared and which were shuffled: of about
/// `size` rows each (0: all rows in one).
pub(crate) fn prepared_minibatches(
    learners: &Learners,
    id: &str,
    all: &SampleBatch,
    size: usize,
) -> Result<Vec<SampleBatch>> {
    let rows = all.rows();
    let size = if size == 0 { rows } else { size.min(rows) };
    let mut batch = all.slice(0, rows);
    learners.lend_policy(id, |policy| policy.prepare(&mut batch))??;
    let order = learners.rng(|rng| rng.permutation(batch.sequences().map_or(rows, <[usize]>::len)));
    let shuffled = if rows == size { batch } else { batch.select_sequences(order) };
    Ok(minibatches(&shuffled, size))
}

/// Cuts a batch into minibatches of about `size` rows, whose numbers of rows differ by one at most. Sequences stay whole:
/// a minibatch has those whose middles lie in its share of the rows, and means over it divide by this share, so that the weight of a row
/// does not depend on the other sequences of its minibatch.
pub fn minibatches(batch: &SampleBatch, size: usize) -> Vec<SampleBatch> {
    let rows = batch.rows();
    let nearest = ((2 * rows + size) / (2 * size)).max(usize::from(rows > 0));
    let Some(lengths) = batch.sequences() else {
        let start = |minibatch: usize| minibatch * rows / nearest;
        return (0..nearest).map(|at| batch.slice(start(at), start(at + 1) - start(at))).collect();
    };
    let longest = lengths.iter().max().copied().unwrap_or(1);
    // A share is at least as long as every sequence, so none is empty.
    let count = nearest.min(rows / longest).max(1);
    let mut firsts = Vec::with_capacity(count + 1);
    let mut start = 0;
    for length in lengths {
        // Twice the middle of the sequence, in shares of `rows / count` rows.
        let share = (2 * start + length) * count / (2 * rows);
        if share >= firsts.len() {
            firsts.push(start);
        }
        start += length;
    }
    let ends = firsts.iter().skip(1).copied().chain([rows]);
    let cut = |(&start, end)| batch.slice(start, end - start).into_share_of(rows, count);
    firsts.iter().zip(ends).map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pavlov_learn::base::Array;
    use pavlov_learn::experience::Column;

    /// A batch of the rows 0, 1, 2, .. in sequences of these lengths.
    fn sequences(lengths: &[usize]) -> SampleBatch {
        let rows: usize = lengths.iter().sum();
        let numbers: Vec<f32> = (0..rows).map(|row| row as f32).collect();
        let memory = Array::from_vec(vec![0.0_f32; lengths.len()], &[lengths.len() as i64, 1]);
        let batch = SampleBatch::default().with_f32s(Column::REWARDS, &numbers);
        batch.with_sequences(lengths.to_vec(), Column::STATE_IN, memory)
    }

    /// Numbers of the rows in all minibatches, and the number of rows of each minibatch.
    fn cut(batch: &SampleBatch, size: usize) -> (Vec<f32>, Vec<usize>) {
        let parts = minibatches(batch, size);
        let rows =
            parts.iter().flat_map(|part| part.get(Column::REWARDS).expect("rewards").to_f32().to_vec());
        (rows.collect(), parts.iter().map(SampleBatch::rows).collect())
    }

    #[test]
    fn every_row_is_in_one_minibatch_whatever_the_lengths() {
        let of = |copies: usize, steps: usize, every: usize| {
            let copy = (0..steps).step_by(every).map(move |t| every.min(steps - t));
            (0..copies).flat_map(|_| copy.clone()).collect::<Vec<_>>()
        };
        let ragged = [[7, 1, 1, 20, 3], [1, 20, 20, 2, 5], [1, 1, 1, 1, 1]];
        let layouts =
            [(10, 50, 20), (1, 128, 20), (8, 128, 20), (2, 20, 6), (1, 21, 20), (16, 64, 20), (4, 25, 20)];
        let all = layouts.map(|(copies, steps, every)| of(copies, steps, every));
        for lengths in all.into_iter().chain(ragged.map(|lengths| lengths.to_vec())) {
            let batch = sequences(&lengths);
            let rows = batch.rows();
            let whole: Vec<f32> = (0..rows).map(|row| row as f32).collect();
            for size in
                [1, 3, 20, 21, 40, 100, 128, 1024].into_iter().filter(|&size| size <= rows).chain([rows])
            {
                let (learned, parts) = cut(&batch, size);
                assert_eq!(learned, whole, "{lengths:?} in minibatches of {size}");
                let longest = lengths.iter().max().copied().unwrap_or_default();
                let share = (size + size / 2).max(longest * 2) + longest;
                assert!(
                    parts.iter().all(|&part| part > 0 && part <= share),
                    "{lengths:?}, {size}: {parts:?}"
                );
                // The share is the same for all minibatches, and all shares together are all rows.
                let shares = minibatches(&batch, size).iter().map(SampleBatch::mean_rows).collect::<Vec<_>>();
                assert!(shares.iter().all(|share| share.to_bits() == shares[0].to_bits()));
                assert!((shares.iter().sum::<f64>() - rows as f64).abs() < 1e-9 * rows as f64, "{shares:?}");
            }
        }
    }

    #[test]
    fn minibatches_of_rows_leave_none_out_and_are_as_equal_as_can_be() {
        for (rows, size, sizes) in [
            (11, 4, vec![3, 4, 4]),
            (12, 4, vec![4; 3]),
            (9, 4, vec![4, 5]),
            (2, 4, vec![2]),
            (2, 1, vec![1; 2]),
            (0, 4, vec![]),
        ] {
            let numbers: Vec<f32> = (0..rows).map(|row| row as f32).collect();
            let batch = SampleBatch::default().with_f32s(Column::REWARDS, &numbers);
            assert_eq!(cut(&batch, size), (numbers, sizes));
        }
    }
}
