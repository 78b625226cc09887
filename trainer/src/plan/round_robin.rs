//! `round_robin`: two plans in turn (Ray's Concurrently in round_robin mode).

use crate::base::Result;
use crate::plan::Plan;
use crate::plan::learner_info::LearnerInfo;

/// Created by [`round_robin`].
struct RoundRobin<F> {
    first: Plan,
    second: Plan,
    pulls: F,
}

/// Pulls `first` once, then `second` as often as `pulls` says at that moment, and yields what all of them reported.
///
/// The number is asked for every round so that a ratio can be kept exactly: answer with the pulls that are owed, from
/// counters that survive a checkpoint.
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
