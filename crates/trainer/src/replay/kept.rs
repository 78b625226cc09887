//! How a replay buffer stores one column.

use crate::replay::frames::{Frames, Rows};
use pavlov_learn::base::{Array, Kind};

/// How the buffer stores one column.
#[derive(Debug)]
pub(super) enum Kept {
    /// Array `[capacity, ...]` of rows.
    Plain(Array),
    Frames(Rows),
}

impl Kept {
    /// Allocates a column for rows like those of `data`.
    pub(super) fn new(data: &Array, capacity: usize, frames: &mut Vec<Frames>) -> Self {
        Rows::new(data, capacity, frames).map_or_else(
            || {
                let shape = [&[capacity as i64], &data.shape()[1..]].concat();
                Self::Plain(Array::zeros(data.kind(), &shape))
            },
            Self::Frames,
        )
    }

    /// Shape and kind of an array of `rows` rows.
    pub(super) fn of(&self, rows: usize) -> (Vec<i64>, Kind) {
        match self {
            Self::Plain(storage) => {
                let mut shape = storage.size();
                shape[0] = rows as i64;
                (shape, storage.kind())
            }
            Self::Frames(kept) => kept.of(rows),
        }
    }

    /// Writes the rows of `data` to places `first`, `first + 1`, ... of the ring, where place 0 follows the last.
    pub(super) fn write(&mut self, data: &Array, first: usize, capacity: usize, frames: &mut [Frames]) {
        let rows = data.len();
        let from = data.bytes();
        let width = from.len() / rows.max(1);
        let rows = from.chunks_exact(width.max(1)).enumerate().take(rows);
        let rows = rows.map(|(i, row)| ((first + i) % capacity, row));
        match self {
            Self::Plain(storage) => {
                let to = storage.bytes_mut();
                rows.for_each(|(slot, row)| to[slot * width..][..width].copy_from_slice(row));
            }
            Self::Frames(kept) => rows.for_each(|(slot, row)| kept.write(slot, row, frames)),
        }
    }

    /// Copies the rows at the places `index` of the ring to an array.
    pub(super) fn read(&self, index: &[usize], frames: &[Frames]) -> Array {
        let kept = match self {
            Self::Plain(storage) => {
                return storage.lend().picked(index.len(), index.iter().copied(), &storage.shape()[1..]);
            }
            Self::Frames(kept) => kept,
        };
        let (shape, kind) = self.of(index.len());
        let mut drawn = Array::zeros(kind, &shape);
        let to = drawn.bytes_mut();
        let width = to.len() / index.len().max(1);
        let rows = to.chunks_exact_mut(width.max(1)).zip(index);
        rows.for_each(|(to, &slot)| kept.read(slot, frames, to));
        drawn
    }
}
