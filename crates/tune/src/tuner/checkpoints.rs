//! The checkpoints of a trial, and the choice of which may be deleted.

use std::cmp::Ordering;

use crate::checkpoint::beyond;
use crate::executor::SavedCheckpoint;

/// Checkpoints of one trial, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    all: Vec<Checkpoint>,
    /// Iteration of the checkpoint that other trials may still start from.
    kept: Option<u64>,
    /// Iterations of the checkpoints that other trials are starting from, one entry per such trial.
    held: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub(super) iteration: u64,
    pub(super) bytes: u64,
    /// Score of the checkpoint, higher is better; `None` if its result had no number for the score attribute.
    pub(super) score: Option<f64>,
}

impl Checkpoints {
    /// Adds the newest checkpoint. It replaces one of the same iteration, because it overwrote that one's directory.
    pub(super) fn add(&mut self, saved: SavedCheckpoint, score: Option<f64>) {
        self.forget(saved.iteration);
        self.all.push(Checkpoint { iteration: saved.iteration, bytes: saved.bytes, score });
    }

    pub(super) fn forget(&mut self, iteration: u64) -> Option<Checkpoint> {
        let at = self.all.iter().position(|checkpoint| checkpoint.iteration == iteration)?;
        Some(self.all.remove(at))
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.all.last().map(|checkpoint| checkpoint.iteration)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Checkpoint> {
        self.all.iter()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.all.iter().map(|checkpoint| checkpoint.bytes).sum()
    }

    /// Keeps the checkpoint of `iteration` for other trials to start from, instead of any checkpoint kept before.
    pub(super) fn keep(&mut self, iteration: u64) {
        self.kept = Some(iteration);
    }

    pub(super) fn kept(&self) -> Option<u64> {
        self.kept.filter(|kept| self.all.iter().any(|checkpoint| checkpoint.iteration == *kept))
    }

    /// Holds the checkpoint of `iteration` until `release`, because another trial is starting from it.
    pub(super) fn hold(&mut self, iteration: u64) {
        self.held.push(iteration);
    }

    pub(super) fn release(&mut self, iteration: u64) {
        if let Some(at) = self.held.iter().position(|held| *held == iteration) {
            self.held.swap_remove(at);
        }
    }

    /// Whether a trial may still start from the checkpoint, so that it must stay even if it is not among the best.
    pub(super) fn is_needed(&self, iteration: u64) -> bool {
        self.newest() == Some(iteration) || self.kept == Some(iteration) || self.held.contains(&iteration)
    }

    /// Returns the iterations of the checkpoints that rank below the best `num_to_keep` and are not needed. Without
    /// `by_score`, newer checkpoints rank higher.
    pub(super) fn surplus(&self, num_to_keep: usize, by_score: bool) -> Vec<u64> {
        if self.all.len() <= num_to_keep {
            return Vec::new();
        }
        let mut ranked: Vec<&Checkpoint> = self.all.iter().rev().collect();
        if by_score {
            ranked.sort_by(|a, b| compare(b.score, a.score));
        }
        let ranked = ranked.iter().map(|checkpoint| checkpoint.iteration);
        beyond(ranked, num_to_keep, |iteration| self.is_needed(iteration))
    }

    /// Returns the iteration of the oldest checkpoint that is not needed.
    pub(super) fn oldest_unneeded(&self) -> Option<u64> {
        self.all.iter().map(|checkpoint| checkpoint.iteration).find(|iteration| !self.is_needed(*iteration))
    }
}

fn compare(a: Option<f64>, b: Option<f64>) -> Ordering {
    let rank = |score: Option<f64>| score.filter(|score| !score.is_nan()).unwrap_or(f64::NEG_INFINITY);
    rank(a).total_cmp(&rank(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(scores: &[f64]) -> Checkpoints {
        let mut checkpoints = Checkpoints::default();
        for (iteration, score) in (1..).zip(scores) {
            checkpoints.add(SavedCheckpoint { iteration, bytes: 10 }, Some(*score));
        }
        checkpoints
    }

    #[test]
    fn the_best_and_the_newest_stay() {
        let checkpoints = scored(&[3.0, f64::NAN, 5.0, 1.0]);
        assert_eq!(checkpoints.surplus(1, true), [1, 2]);
        assert_eq!(checkpoints.surplus(2, true), [2]);
        assert_eq!(checkpoints.surplus(2, false), [2, 1]);
    }

    #[test]
    fn what_another_trial_needs_stays_until_it_is_let_go() {
        let mut checkpoints = scored(&[1.0, 2.0, 3.0, 4.0]);
        checkpoints.keep(1);
        checkpoints.hold(2);
        assert_eq!(checkpoints.surplus(1, true), [3]);
        checkpoints.release(2);
        assert_eq!(checkpoints.surplus(1, true), [3, 2]);
        checkpoints.keep(4);
        assert_eq!(checkpoints.surplus(1, true), [3, 2, 1]);
        assert_eq!(checkpoints.oldest_unneeded(), Some(1));
    }

    #[test]
    fn a_checkpoint_of_the_same_iteration_takes_the_place() {
        let mut checkpoints = scored(&[1.0, 2.0]);
        checkpoints.add(SavedCheckpoint { iteration: 1, bytes: 30 }, None);
        assert_eq!((checkpoints.newest(), checkpoints.bytes()), (Some(1), 40));
    }
}
