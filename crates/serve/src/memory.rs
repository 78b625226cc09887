//! The bound on the memory of bodies and answers that are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes or connections that is handed out in parts.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    used: Arc<AtomicUsize>,
    most: usize,
}

/// A part of a [`Budget`], which goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    used: Arc<AtomicUsize>,
    amount: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self { used: Arc::default(), most }
    }

    /// Takes `amount`; `None` if less is left.
    pub(crate) fn take(&self, amount: usize) -> Option<Held> {
        let more = |used: usize| used.checked_add(amount).filter(|&used| used <= self.most);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Held { used: Arc::clone(&self.used), amount })
    }

    /// How much is handed out.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.used.fetch_sub(self.amount, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_bound_is_handed_out_and_what_is_dropped_comes_back() {
        let budget = Budget::new(10);
        let most = budget.take(8).expect("there is room");
        assert!(budget.take(3).is_none());
        assert!(budget.take(2).is_some(), "a refused amount takes nothing");
        drop(most);
        assert!(budget.take(10).is_some());
        assert_eq!(budget.used(), 0);
    }
}
