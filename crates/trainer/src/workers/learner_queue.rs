//! [`LearnerQueue`]: the number of batches that wait for the learner thread.

use pavlov_learn::base::{Error, Result, lock};
use std::sync::{Condvar, Mutex, PoisonError};

/// Counts the batches that the plan's thread has passed to the learner thread, and makes the plan's thread wait when
/// there are too many.
#[derive(Debug, Default)]
pub(crate) struct LearnerQueue {
    state: Mutex<Count>,
    /// Notified whenever the count changes.
    changed: Condvar,
}

/// The number of batches left for the learner thread, and whether the thread has failed.
#[derive(Debug, Default)]
struct Count {
    /// Number of batches that were passed to the learner thread and not learned from yet, including the current one.
    batches: usize,
    /// Whether the learner thread has ended with an error that was not reported yet.
    failed: bool,
}

impl LearnerQueue {
    /// Waits until fewer than `most` batches are left for the learner thread, and then counts one more. Returns false
    /// if the learner thread has failed.
    pub(crate) fn hand_over(&self, most: usize) -> bool {
        let mut count = self.until(|count| count.batches < most);
        count.batches += 1;
        !count.failed
    }

    /// Counts a batch as learned from. Returns the number of batches that are left.
    pub(crate) fn learned(&self) -> usize {
        let mut count = lock(&self.state);
        count.batches -= 1;
        self.changed.notify_all();
        count.batches
    }

    /// Records that the learner thread has ended, and drops the batches that are left; `failed` tells that it ended
    /// with an error that is still to be reported.
    pub(crate) fn end(&self, failed: bool) {
        *lock(&self.state) = Count { batches: 0, failed };
        self.changed.notify_all();
    }

    /// Waits until all batches are learned from.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the learner thread has failed.
    pub(crate) fn wait(&self) -> Result<()> {
        if self.until(|count| count.batches == 0).failed {
            let reason = "it has failed, and what it was to learn from is lost; the next `train` reports why. \
                              Continue from an earlier checkpoint";
            Err(Error::state("the learner thread", reason))
        } else {
            Ok(())
        }
    }

    /// Waits until the count is as `enough` asks, or the learner thread has failed.
    fn until(&self, enough: impl Fn(&Count) -> bool) -> std::sync::MutexGuard<'_, Count> {
        let waits = |count: &mut Count| !count.failed && !enough(count);
        self.changed.wait_while(lock(&self.state), waits).unwrap_or_else(PoisonError::into_inner)
    }
}
