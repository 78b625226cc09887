//! `owed`: the number of replayed batches to learn from, which keeps the ratio `training_intensity`.

use crate::replay::SharedReplay;
use crate::workers::WorkerSet;

/// Returns a function that gives the number of batches of `train_batch_size` rows that each policy of the buffer has
/// to learn from now. Without `training_intensity` the number is 1. Otherwise it brings trained rows per sampled row,
/// over all these policies, up to `training_intensity`; the first `learning_starts` rows of a policy do not count.
///
/// The number is computed from the counters of the run, so no fraction is lost and a restored run continues exactly.
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
