//! Rows that the sampler writes one by one and lends in between.

use crate::base::array::Array;
use crate::base::error::{Error, Result};
use crate::base::kind::{Kind, Shape};
use crate::base::lent::ArrayRef;
use crate::base::memory::Memory;
use bytemuck::Pod;

/// Rows of equal shape in memory of their own, which are written one at a time and lent in between.
#[derive(Debug)]
pub struct HostRows {
    kind: Kind,
    tail: Shape,
    rows: usize,
    row_bytes: usize,
    memory: Memory,
}

impl HostRows {
    /// Makes rows of zeros, `[rows, tail...]`.
    pub fn zeros(rows: usize, tail: &[i64], kind: Kind) -> Self {
        let tail = Shape::new(tail.iter().copied());
        let row_bytes = tail.numel() * kind.size();
        Self { kind, tail, rows, row_bytes, memory: Memory::zeros(rows * row_bytes) }
    }

    /// Number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// All rows.
    #[inline]
    pub fn lend(&self) -> ArrayRef<'_> {
        ArrayRef::new(self.kind, Shape::of_rows(self.rows, &self.tail), self.memory.bytes())
    }

    /// Row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> ArrayRef<'_> {
        let bytes = &self.memory.bytes()[i * self.row_bytes..][..self.row_bytes];
        ArrayRef::new(self.kind, self.tail, bytes)
    }

    /// The bytes of row `i`, for reading and writing.
    #[inline]
    pub fn bytes_mut(&mut self, i: usize) -> &mut [u8] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        &mut self.memory.bytes_mut()[i * self.row_bytes..][..self.row_bytes]
    }

    /// Row `i` as a slice of scalars; `T` is the type of scalars.
    #[inline]
    pub fn slice_mut<T: Pod>(&mut self, i: usize) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes_mut(i))
    }

    /// Row `i` of flags, as a slice.
    #[inline]
    pub fn bools_mut(&mut self, i: usize) -> &mut [bool] {
        bytemuck::checked::cast_slice_mut(self.bytes_mut(i))
    }

    /// The bytes of part `i` of row `row`, which is divided into `of` equal parts.
    #[inline]
    pub fn part_mut(&mut self, row: usize, i: usize, of: usize) -> &mut [u8] {
        let bytes = self.bytes_mut(row);
        let part = bytes.len() / of;
        &mut bytes[i * part..][..part]
    }

    /// Copies part `i` of row `from` over part `i` of row `to`; both rows are divided into `of` equal parts.
    #[inline]
    pub fn copy_part(&mut self, from: usize, to: usize, i: usize, of: usize) {
        assert!(from < self.rows && to < self.rows && i < of);
        let part = self.row_bytes / of;
        let at = |row: usize| row * self.row_bytes + i * part;
        self.memory.bytes_mut().copy_within(at(from)..at(from) + part, at(to));
    }

    /// Copies row `from` over row `to`.
    #[inline]
    pub fn copy_row(&mut self, from: usize, to: usize) {
        self.copy_part(from, to, 0, 1);
    }

    /// Replaces row `i` by a saved array. `key` is its name in errors.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the array has another shape or type, or holds flags other than 0 and 1.
    pub fn restore(&mut self, i: usize, key: &str, saved: &Array) -> Result<()> {
        if saved.kind() != self.kind || *saved.shape() != *self.tail {
            let reason = format!("it is {saved:?}, but {:?}{:?} is needed here", self.kind, self.tail);
            return Err(Error::state(key, reason));
        }
        if self.kind == Kind::Bool && saved.bytes().iter().any(|&flag| flag > 1) {
            return Err(Error::state(key, "it holds flags that are neither 0 nor 1"));
        }
        self.bytes_mut(i).copy_from_slice(saved.bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_flags_other_than_0_and_1_are_refused_and_nothing_changes() {
        let mut rows = HostRows::zeros(1, &[2], Kind::Bool);
        let error = rows.restore(0, "masks", &Array::from_bytes(Kind::Bool, &[2], &[1, 2])).unwrap_err();
        assert!(error.to_string().contains("masks"), "{error}");
        assert_eq!(rows.bools_mut(0), [false, false]);
        rows.restore(0, "masks", &Array::from_vec([true, false], &[2])).expect("flags");
        assert_eq!(rows.bools_mut(0), [true, false]);
    }
}
