//! `round_robin`: alternates between two plans (Ray's Concurrently in round_robin mode).

use crate::plan::Plan;
use crate::plan::learner_info::LearnerInfo;
use pavlov_learn::base::Result;

/// The iterator that [`round_robin`] returns.
struct RoundRobin<F> {
    first: Plan,
    second: Plan,
    pulls: F,
}

/// Returns a plan that pulls `first` once, then `second` as many times as `pulls` returns, and yields their joined
/// reports.
///
/// `pulls` is called in every round. To keep a ratio exactly, compute the number from counters that survive a
/// checkpoint.
pub fn round_robin(
    first: impl Iterator<Item = Result<LearnerInfo>> + Send + 'static,
    second: impl Iterator<Item = Result<LearnerInfo>> + Send + 'static,
    pulls: impl FnMut() -> usize + Send + 'static,
) -> Plan {
    Box::new(RoundRobin { first: Box::new(first), second: Box::new(second), pulls })
}

impl<F: FnMut() -> usize> Iterator for RoundRobin<F> {
    type Item = Result<LearnerInfo>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut info = match self.first.next()? {
            Ok(info) => info,
            error => return Some(error),
        };
        for _ in 0..(self.pulls)() {
            match self.second.next()? {
                Ok(more) => info.merge(more),
                error => return Some(error),
            }
        }
        Some(Ok(info))
    }
}
