//! `replay`: batches out of the replay buffer, and new priorities into it.

use crate::{
    base::{
        error::Result,
        train_batch::{PolicyId, TrainBatch},
    },
    plan::learner_info::LearnerInfo,
    replay::SharedReplay,
};
use std::collections::BTreeMap;
use tch::Tensor;

/// Created by [`replay`].
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct Replay {
    buffer: SharedReplay,
    rows: usize,
}

/// A batch of `rows` rows drawn from the buffer per pull; nothing before `learning_starts`.
pub fn replay(buffer: &SharedReplay, rows: usize) -> Replay {
    Replay { buffer: buffer.clone(), rows }
}

impl Iterator for Replay {
    type Item = Result<Option<TrainBatch>>;

    fn next(&mut self) -> Option<Self::Item> {
        let drawn = self.buffer.lock().sample(self.rows);
        let of_policy = |batch| TrainBatch::of(self.buffer.policy(), batch, self.rows as u64);
        Some(drawn.map(|batch| batch.map(of_policy)))
    }
}

/// What was learned from a replayed batch.
#[derive(Debug)]
pub struct Replayed {
    /// The batch.
    pub batch: TrainBatch,
    /// The error of each row, by policy.
    pub td_errors: BTreeMap<PolicyId, Tensor>,
    /// What the learner reported.
    pub info: LearnerInfo,
}

/// Writes the rows' errors back as their priorities; a uniform buffer ignores them.
pub fn update_priorities(
    buffer: &SharedReplay,
) -> impl FnMut(Option<Replayed>) -> Result<LearnerInfo> + Send + use<> {
    let buffer = buffer.clone();
    move |replayed| {
        let Some(Replayed { batch, td_errors, info }) = replayed else { return Ok(LearnerInfo::default()) };
        let id = buffer.policy();
        if let (Some(rows), Some(errors)) = (batch.policies.get(id), td_errors.get(id)) {
            buffer.lock().update_priorities(rows, errors)?;
        }
        Ok(info)
    }
}
