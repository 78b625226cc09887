//! Which rows of a batch follow each other: pieces of episodes.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Rows that follow each other within an episode. Either the task ended with the last of them, or they were cut (by the
/// end of a fragment or of the time) and something stands behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The first row of the trajectory.
    pub start: usize,
    /// How many rows it has.
    pub len: usize,
    /// Whether the task ended with the last row: nothing is behind it.
    pub terminated: bool,
}

impl Trajectory {
    /// The rows of the trajectory.
    pub fn rows(&self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// Those that have something behind them.
pub(crate) fn cuts(pieces: &[Trajectory]) -> usize {
    pieces.iter().filter(|piece| !piece.terminated).count()
}

/// The pieces that make up `rows`, counted from the first of these, and which cuts are theirs. None when a piece lies
/// across an end.
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

/// The pieces of several batches of so many rows, one batch behind the other.
pub(crate) fn joined<'a>(parts: impl Iterator<Item = (usize, &'a [Trajectory])>) -> Vec<Trajectory> {
    let (mut all, mut rows) = (Vec::new(), 0);
    for (len, pieces) in parts {
        all.extend(pieces.iter().map(|piece| Trajectory { start: rows + piece.start, ..*piece }));
        rows += len;
    }
    all
}
