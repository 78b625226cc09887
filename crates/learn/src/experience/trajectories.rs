//! Trajectories: pieces of episodes, as ranges of a batch's rows.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Consecutive rows of one episode. Either the task ended with the last row, or the trajectory was cut (by the end of
/// a fragment or a time limit) and the batch stores the observation after the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The first row of the trajectory.
    pub start: usize,
    /// Number of rows of the trajectory.
    pub len: usize,
    /// Whether the task ended with the last row; otherwise the trajectory was cut.
    pub terminated: bool,
}

impl Trajectory {
    /// The trajectory's range of rows.
    #[inline]
    pub fn rows(&self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// Number of trajectories that were cut.
pub(crate) fn cuts(pieces: &[Trajectory]) -> usize {
    pieces.iter().filter(|piece| !piece.terminated).count()
}

/// The trajectories within `rows`, with starts relative to its start, and the range of their cuts among all cuts.
/// `None` if a trajectory crosses a border of `rows`.
pub(crate) fn within(pieces: &[Trajectory], rows: &Range<usize>) -> Option<(Vec<Trajectory>, Range<usize>)> {
    let first = pieces.partition_point(|piece| piece.start < rows.start);
    let behind = pieces.partition_point(|piece| piece.start < rows.end);
    let inside = &pieces[first..behind];
    let begins = inside.first().map_or(rows.start, |piece| piece.start) == rows.start;
    let ends = inside.last().map_or(rows.start, |piece| piece.rows().end) == rows.end;
    let moved = |piece: &Trajectory| Trajectory { start: piece.start - rows.start, ..*piece };
    let before = cuts(&pieces[..first]);
    (begins && ends).then(|| (inside.iter().map(moved).collect(), before..before + cuts(inside)))
}

/// Joins the trajectories of consecutive batches, given with each batch's number of rows.
pub(crate) fn joined<'a>(parts: impl Iterator<Item = (usize, &'a [Trajectory])>) -> Vec<Trajectory> {
    let mut all = Vec::new();
    let mut rows = 0;
    for (len, pieces) in parts {
        all.extend(pieces.iter().map(|piece| Trajectory { start: rows + piece.start, ..*piece }));
        rows += len;
    }
    all
}
