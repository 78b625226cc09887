//! `Replay`: batches out of the replay buffer, and new priorities into it.

use crate::{
    base::{batch::SampleBatch, error::Result, lock},
    plan::learner_info::LearnerInfo,
    replay::SharedReplay,
};
use std::sync::Arc;
use tch::Tensor;

/// A batch drawn from the buffer per pull; nothing before `learning_starts`.
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct Replay {
    buffer: SharedReplay,
    rows: usize,
}

impl Replay {
    /// Batches of `rows` rows.
    pub fn new(buffer: &SharedReplay, rows: usize) -> Self {
        Self { buffer: Arc::clone(buffer), rows }
    }
}

impl Iterator for Replay {
    type Item = Result<Option<SampleBatch>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(lock(&self.buffer).sample(self.rows))
    }
}

/// What was learned from a replayed batch.
#[derive(Debug)]
pub struct Replayed {
    /// The batch.
    pub batch: SampleBatch,
    /// The error of each row.
    pub td_errors: Option<Tensor>,
    /// What the learner reported.
    pub info: LearnerInfo,
}

/// Writes the rows' errors back as their priorities; a uniform buffer ignores them.
pub fn update_priorities(
    buffer: &SharedReplay,
) -> impl FnMut(Option<Replayed>) -> Result<LearnerInfo> + Send + use<> {
    let buffer = Arc::clone(buffer);
    move |replayed| {
        let Some(Replayed { batch, td_errors, info }) = replayed else { return Ok(LearnerInfo::default()) };
        if let Some(td_errors) = td_errors {
            lock(&buffer).update_priorities(&batch, &td_errors)?;
        }
        Ok(info)
    }
}
