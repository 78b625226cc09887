//! `owed`: the number of replayed batches that `training_intensity` asks for.

use crate::replay::SharedReplay;
use crate::workers::WorkerSet;

/// Returns a function that gives the number of batches of `train_batch_size` rows to learn from after a fragment, for
/// each policy of the buffer: one, or as many as `training_intensity` (trained rows per sampled row, over all these
/// policies) requires.
///
/// The number is computed from the counters, so no fraction is lost and a restored run continues exactly.
pub fn owed(
    workers: &WorkerSet,
    buffer: &SharedReplay,
    training_intensity: Option<f64>,
    train_batch_size: usize,
) -> impl FnMut() -> usize + Send + use<> {
    let ledger = workers.ledger.clone();
    let buffer = buffer.clone();
    move || match training_intensity {
        None => 1,
        Some(intensity) => {
            let mut sampled = 0;
            let mut trained = 0;
            let mut policies = 0;
            for id in buffer.policies() {
                let counters = ledger.counters().of_policy(id);
                let starts = buffer.lock(id).map_or(0, |buffer| buffer.learning_starts() as u64);
                sampled += counters.num_steps_sampled.saturating_sub(starts);
                trained += counters.num_steps_trained;
                policies += 1;
            }
            let rows = intensity * sampled as f64 - trained as f64;
            (rows / (train_batch_size * policies) as f64).max(0.0) as usize
        }
    }
}
