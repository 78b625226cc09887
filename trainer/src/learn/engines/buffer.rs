//! Buffers whose memory is reused.

use std::ops::{Deref, DerefMut};

/// The first `len` numbers of an allocation whose size is a power of two, so that buffers of similar length can reuse
/// it without clearing.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<f32>,
    len: usize,
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }
}

/// Allocations that are free to be used again: entry `i` has those of `2^i` numbers.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<Vec<f32>>>);

impl Spare {
    pub(crate) fn take(&mut self, len: usize) -> Buffer {
        let size = len.next_power_of_two();
        let free = self.0.get_mut(size.trailing_zeros() as usize).and_then(Vec::pop);
        Buffer { memory: free.unwrap_or_else(|| vec![0.0; size]), len }
    }

    pub(crate) fn put(&mut self, buffer: Buffer) {
        if buffer.memory.is_empty() {
            return;
        }
        let class = buffer.memory.len().trailing_zeros() as usize;
        if self.0.len() <= class {
            self.0.resize_with(class + 1, Vec::new);
        }
        self.0[class].push(buffer.memory);
    }
}
