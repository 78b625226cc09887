//! The number of batches that wait for the learner thread.

use crate::base::{Error, Result, lock};
use std::sync::{Condvar, Mutex, PoisonError};

/// Counts the batches between the plan's thread and the learner thread, and makes the plan wait when there are too
/// many.
#[derive(Debug, Default)]
pub(crate) struct LearnerQueue {
    state: Mutex<Count>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    /// Number of batches handed over and not learned from yet, including the current one.
    batches: usize,
    /// Whether the thread ended with an error that was not reported yet.
    failed: bool,
}

impl LearnerQueue {
    /// Waits until fewer than `most` batches are left, then counts one more. Returns false if the thread has failed.
    pub(crate) fn hand_over(&self, most: usize) -> bool {
        let mut count = self.until(|count| count.batches < most);
        count.batches += 1;
        !count.failed
    }

    /// Counts a batch as learned from. Returns the number of batches that wait.
    pub(crate) fn learned(&self) -> usize {
        let mut count = lock(&self.state);
        count.batches -= 1;
        self.changed.notify_all();
        count.batches
    }

    /// Records that the thread has ended and drops the batches left; `failed` marks an error that is still to be
    /// reported.
    pub(crate) fn end(&self, failed: bool) {
        *lock(&self.state) = Count { batches: 0, failed };
        self.changed.notify_all();
    }

    /// Waits until all batches are learned from.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the thread that should have learned from them has failed.
    pub(crate) fn wait(&self) -> Result<()> {
        if self.until(|count| count.batches == 0).failed {
            let reason = "it has failed, and what it was to learn from is lost; the next `train` reports why. \
                              Continue from an earlier checkpoint";
            Err(Error::state("the learner thread", reason))
        } else {
            Ok(())
        }
    }

    fn until(&self, enough: impl Fn(&Count) -> bool) -> std::sync::MutexGuard<'_, Count> {
        let waits = |count: &mut Count| !count.failed && !enough(count);
        self.changed.wait_while(lock(&self.state), waits).unwrap_or_else(PoisonError::into_inner)
    }
}
