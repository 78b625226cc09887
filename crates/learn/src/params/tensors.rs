//! Buffers as tensors.

use crate::params::buffer::Buffer;
use crate::params::device::OnDevice;
use std::panic::resume_unwind;
use std::thread;
use tch::Tensor;

impl Buffer {
    /// Makes a buffer of a contiguous f32 tensor `[total]`.
    pub(crate) fn of_tensor(tensor: Tensor) -> Self {
        Self::Torch(OnDevice::over(tensor))
    }

    /// The tensor of a buffer in libtorch's memory.
    ///
    /// # Panics
    /// Panics if the buffer is not in libtorch's memory: a bug in this crate.
    pub(crate) fn tensor(&self) -> &Tensor {
        match self {
            Self::Torch(there) => &there.tensor,
            Self::Host(_) => unreachable!("libtorch computes with its own memory"),
        }
    }

    /// The numbers as a tensor: the buffer's own, or a copy of numbers in the main memory.
    pub(crate) fn as_tensor(&self) -> Tensor {
        match self {
            Self::Torch(there) => there.tensor.shallow_clone(),
            // A trace belongs to its thread, and would record how this thread makes a tensor, but not the numbers.
            Self::Host(array) => thread::scope(|scope| {
                let copy = scope.spawn(|| array.to_tensor()).join();
                copy.unwrap_or_else(|panic| resume_unwind(panic))
            }),
        }
    }
}
