//! `train_in_turn`: learns from whole training batches, several times from each, with passes over earlier batches in
//! between.

use crate::experience::TrainBatch;
use crate::plan::learner_info::LearnerInfo;
use crate::plan::train::passes;
use crate::replay::MinibatchBuffer;
use crate::workers::WorkerSet;
use pavlov_learn::base::Result;
use std::time::Instant;

/// Returns a step that makes `num_sgd_iter` passes over every batch, each with the whole batch in one learning step.
/// Up to `slots` batches (Ray's `minibatch_buffer_size`) are kept in a ring. A new batch goes into the free slot that
/// is next; then the step makes one pass over the batch of each slot in turn, from the new batch on, until the next
/// slot is free. With one slot a batch has all its passes at once, as in
/// [`train_epochs`](crate::plan::train::train_epochs).
///
/// Batches with passes left are saved with the run.
pub fn train_in_turn(
    workers: &WorkerSet,
    slots: usize,
    num_sgd_iter: usize,
) -> impl FnMut(TrainBatch) -> Result<LearnerInfo> + Send + use<> {
    let learners = workers.learners.clone();
    let ledger = workers.ledger.clone();
    learners.minibatches(|buffer| *buffer = MinibatchBuffer::new(slots.max(1)));
    let (uses, at_once) = if slots > 1 { (num_sgd_iter, 1) } else { (1, num_sgd_iter) };
    move |batch| {
        let start = Instant::now();
        let mut info = LearnerInfo::default();
        batch.policies.iter().for_each(|(id, rows)| info.trained(id, rows.rows()));
        let new = batch.share();
        learners.minibatches(|buffer| buffer.add(batch, uses));
        while let Some(batch) = learners.minibatches(MinibatchBuffer::next) {
            passes(&learners, &batch, (at_once, 0), &mut info)?;
        }
        ledger.trained(&new, learners.published().version, start);
        Ok(info)
    }
}
