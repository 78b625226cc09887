//! `store_to_replay` and `keep_in_replay`: add fragments to the replay buffer.

use crate::experience::TrainBatch;
use crate::plan::learner_info::LearnerInfo;
use crate::replay::SharedReplay;
use pavlov_learn::base::Result;

/// Returns a step that adds the batch's rows to their policies' buffers and yields an empty report.
pub fn store_to_replay(
    buffer: &SharedReplay,
) -> impl FnMut(TrainBatch) -> Result<LearnerInfo> + Send + use<> {
    let mut keep = keep_in_replay(buffer);
    move |batch| keep(batch).map(|_| LearnerInfo::default())
}

/// Returns a step that adds the batch's rows to their policies' buffers and yields the batch.
pub fn keep_in_replay(buffer: &SharedReplay) -> impl FnMut(TrainBatch) -> Result<TrainBatch> + Send + use<> {
    let buffer = buffer.clone();
    move |batch| {
        buffer.check(&batch)?;
        for (id, rows) in batch.policies.iter().filter(|(_, rows)| rows.rows() > 0) {
            if let Some(mut buffer) = buffer.lock(id) {
                buffer.add(rows)?;
            }
        }
        Ok(batch)
    }
}
