//! `replay`: draws batches from the replay buffer, learns from each, and writes new priorities into the buffer.

use crate::base::PolicyId;
use crate::experience::TrainBatch;
use crate::plan::learner_info::LearnerInfo;
use crate::replay::SharedReplay;
use crate::workers::WorkerSet;
use pavlov_learn::base::{Array, Result};
use std::collections::BTreeMap;
use std::time::Instant;

/// The iterator that [`replay`] returns.
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct Replay {
    pub(crate) buffer: SharedReplay,
    rows: usize,
}

/// Returns an iterator that draws a batch per pull: `rows` rows of every policy from its buffer. It yields `None`
/// until a buffer has got `learning_starts` rows.
pub fn replay(buffer: &SharedReplay, rows: usize) -> Replay {
    Replay { buffer: buffer.clone(), rows }
}

impl Iterator for Replay {
    type Item = Result<Option<TrainBatch>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.draw())
    }
}

impl Replay {
    fn draw(&self) -> Result<Option<TrainBatch>> {
        let mut batch = TrainBatch { env_steps: self.rows as u64, ..TrainBatch::default() };
        for id in self.buffer.policies() {
            let Some(mut buffer) = self.buffer.lock(id) else { continue };
            batch.policies.extend(buffer.sample(self.rows)?.map(|rows| (id.to_owned(), rows)));
        }
        Ok(Some(batch).filter(|batch| !batch.policies.is_empty()))
    }
}

/// A replayed batch that was learned from, with the temporal-difference errors of its rows and the learner's report.
#[derive(Debug)]
pub struct Replayed {
    /// The batch that was learned from.
    pub batch: TrainBatch,
    /// Temporal-difference error of each row `[rows]`, by policy.
    pub td_errors: BTreeMap<PolicyId, Array>,
    /// The learner's report.
    pub info: LearnerInfo,
}

/// Returns a step that lets every policy prepare its rows of a replayed batch and take one optimizer step on them.
/// While buffers are filling there is no batch (`None`), and nothing is learned.
pub fn train_on_replay(
    workers: &WorkerSet,
) -> impl FnMut(Option<TrainBatch>) -> Result<Option<Replayed>> + Send + use<> {
    let learners = workers.learners.clone();
    let ledger = workers.ledger.clone();
    move |batch| {
        let Some(mut batch) = batch else { return Ok(None) };
        let start = Instant::now();
        let mut info = LearnerInfo::default();
        let mut td_errors = BTreeMap::new();
        for (id, rows) in batch.policies.iter_mut().filter(|(_, rows)| rows.rows() > 0) {
            learners.lend_policy(id, |policy| policy.prepare(rows))??;
            let (learned, custom) = learners.learn_on_batch(id, rows)?;
            td_errors.extend(learned.td_errors.as_ref().map(|errors| (id.clone(), errors.clone())));
            info.add(id, learned, custom);
            info.trained(id, rows.rows());
        }
        ledger.trained(&batch, learners.published().version, start);
        Ok(Some(Replayed { batch, td_errors, info }))
    }
}

/// Returns a step that writes the temporal-difference errors of a batch into the buffer as priorities of its rows; a
/// uniform buffer ignores them.
pub fn update_priorities(
    buffer: &SharedReplay,
) -> impl FnMut(Option<Replayed>) -> Result<LearnerInfo> + Send + use<> {
    let buffer = buffer.clone();
    move |replayed| {
        let Some(Replayed { batch, td_errors, info }) = replayed else { return Ok(LearnerInfo::default()) };
        for (id, rows) in &batch.policies {
            if let (Some(mut buffer), Some(errors)) = (buffer.lock(id), td_errors.get(id)) {
                buffer.update_priorities(rows, errors)?;
            }
        }
        Ok(info)
    }
}
