//! Buffers whose memory is reused.

use crate::base::lock;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

/// The first `len` numbers of an allocation whose size is a power of two, so that buffers of similar length can reuse
/// it without clearing.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<f32>,
    len: usize,
    side: Side,
}

/// The thread that a buffer belongs to: another one would first have to fetch the memory from that thread's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Side {
    /// The thread that records operations on the tape.
    #[default]
    Own,
    /// The second thread, which computes some of the layers; see `engines::chains`.
    Helper,
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
type Free = Vec<Vec<Vec<f32>>>;

/// The allocations of each [`Side`] that are free to be used again.
#[derive(Debug, Default)]
pub(crate) struct Spare([Mutex<Free>; 2]);

impl Spare {
    /// Takes a buffer of `len` numbers, which may be old ones.
    pub(crate) fn take(&self, len: usize) -> Buffer {
        self.take_for(Side::Own, len)
    }

    /// Takes a buffer of `len` numbers, which may be old ones, from those that the thread `side` used last.
    pub(crate) fn take_for(&self, side: Side, len: usize) -> Buffer {
        let size = len.next_power_of_two();
        let class = size.trailing_zeros() as usize;
        let free = lock(&self.0[side as usize]).get_mut(class).and_then(Vec::pop);
        Buffer { memory: free.unwrap_or_else(|| vec![0.0; size]), len, side }
    }

    /// Keeps a buffer for the next use by the thread that took it.
    pub(crate) fn put(&self, buffer: Buffer) {
        if buffer.memory.is_empty() {
            return;
        }
        let class = buffer.memory.len().trailing_zeros() as usize;
        let mut free = lock(&self.0[buffer.side as usize]);
        if free.len() <= class {
            free.resize_with(class + 1, Vec::new);
        }
        free[class].push(buffer.memory);
    }
}
