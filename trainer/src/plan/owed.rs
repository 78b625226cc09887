//! `owed`: how many replayed batches the training intensity asks for.

use crate::{replay::SharedReplay, workers::WorkerSet};

/// How many batches of `train_batch_size` rows the buffer's policy is to learn from after a fragment: one, or as many as
/// `training_intensity` (trained rows per sampled row) owes.
///
/// The debt is computed from the counters, so no fraction is lost and a restored run owes the same.
pub fn owed(
    workers: &WorkerSet,
    buffer: &SharedReplay,
    training_intensity: Option<f64>,
    train_batch_size: usize,
) -> impl FnMut() -> usize + Send + use<> {
    let (ledger, buffer) = (workers.ledger.clone(), buffer.clone());
    let starts = buffer.lock().learning_starts() as u64;
    move || match training_intensity {
        None => 1,
        Some(intensity) => {
            let counters = ledger.counters().of_policy(buffer.policy());
            let sampled = counters.num_steps_sampled.saturating_sub(starts) as f64;
            let rows = intensity * sampled - counters.num_steps_trained as f64;
            (rows / train_batch_size as f64).max(0.0) as usize
        }
    }
}
