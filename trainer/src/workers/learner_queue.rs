//! How many batches a learner thread has still to learn from.

use crate::base::{Error, Result, lock};
use std::sync::{Condvar, Mutex, PoisonError};

/// Counts the batches between the thread that hands them over and the one that learns, and lets the first wait.
#[derive(Debug, Default)]
pub(crate) struct LearnerQueue {
    state: Mutex<Count>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    /// Handed over and not learned from, the one that is being learned from included.
    batches: usize,
    /// The thread ended with an error that was not reported yet.
    failed: bool,
}

impl LearnerQueue {
    /// Waits until fewer than `most` batches are left, and counts one more; false if the thread has failed.
    pub(crate) fn hand_over(&self, most: usize) -> bool {
        let mut count = self.until(|count| count.batches < most);
        count.batches += 1;
        !count.failed
    }

    /// A batch was learned from; how many wait.
    pub(crate) fn learned(&self) -> usize {
        let mut count = lock(&self.state);
        count.batches -= 1;
        self.changed.notify_all();
        count.batches
    }

    /// No thread learns from what is left. With `failed` its error is still to be reported.
    pub(crate) fn end(&self, failed: bool) {
        *lock(&self.state) = Count { batches: 0, failed };
        self.changed.notify_all();
    }

    /// Waits until all batches are learned from.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the thread that should have learned from them has failed.
    pub(crate) fn wait(&self) -> Result<()> {
        match self.until(|count| count.batches == 0).failed {
            false => Ok(()),
            true => {
                let reason = "it has failed, and what it was to learn from is lost; the next `train` reports why. \
                              Continue from an earlier checkpoint";
                Err(Error::state("the learner thread", reason))
            }
        }
    }

    fn until(&self, enough: impl Fn(&Count) -> bool) -> std::sync::MutexGuard<'_, Count> {
        let waits = |count: &mut Count| !count.failed && !enough(count);
        self.changed.wait_while(lock(&self.state), waits).unwrap_or_else(PoisonError::into_inner)
    }
}
