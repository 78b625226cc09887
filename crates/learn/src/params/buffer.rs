//! A flat buffer of f32 numbers: in the main memory, or in libtorch's on the device where libtorch computes.

use crate::base::{Array, Device, Kind};
use crate::kernels;
use crate::params::device::OnDevice;

/// A flat buffer of parameters, of a gradient, or of an optimizer's moments.
#[derive(Debug)]
pub(crate) enum Buffer {
    Host(Array),
    /// Numbers in memory that libtorch allocated, on the CPU or on a GPU.
    Torch(OnDevice),
}

impl Buffer {
    /// Makes a buffer of these numbers; with `on_libtorch` libtorch allocates it, on that device.
    pub(crate) fn new(numbers: &[f32], on_libtorch: Option<Device>) -> Self {
        match on_libtorch.and_then(|device| OnDevice::new(numbers, device)) {
            Some(there) => Self::Torch(there),
            None => Self::Host(Array::from_slice(numbers)),
        }
    }

    /// Makes a buffer of zeros in the main memory.
    pub(crate) fn zeros(len: usize) -> Self {
        Self::Host(Array::zeros(Kind::F32, &[len as i64]))
    }

    /// Makes a buffer of `len` zeros where this one is.
    pub(crate) fn zeros_beside(&self, len: usize) -> Self {
        match self {
            Self::Host(_) => Self::zeros(len),
            Self::Torch(there) => Self::Torch(there.zeros(len)),
        }
    }

    pub(crate) fn duplicate(&self) -> Self {
        match self {
            Self::Host(array) => Self::Host(array.lend().copied()),
            Self::Torch(there) => Self::Torch(there.duplicate()),
        }
    }

    /// The same numbers again: those in the main memory are not copied, those in libtorch's memory are.
    pub(crate) fn shared(&self) -> Self {
        match self {
            Self::Host(array) => Self::Host(array.clone()),
            Self::Torch(there) => Self::Torch(there.duplicate()),
        }
    }

    /// The numbers; those on a GPU are copied first.
    pub(crate) fn read(&self) -> &[f32] {
        match self {
            Self::Host(array) => array.read(),
            Self::Torch(there) => there.read(),
        }
    }

    /// The numbers, for writing. For a buffer on a GPU the error holds its tensor, since no slice shows its numbers.
    pub(crate) fn write(&mut self) -> Result<&mut [f32], &mut OnDevice> {
        match self {
            Self::Host(array) => Ok(array.write()),
            Self::Torch(there) => there.write(),
        }
    }

    /// The tensor that holds the numbers of a buffer on a GPU.
    ///
    /// # Panics
    /// Panics if the buffer is in the main memory: a bug in this crate.
    pub(crate) fn there(&self) -> &OnDevice {
        match self {
            Self::Torch(there) => there,
            Self::Host(_) => unreachable!("gradients and moments are where the parameters are"),
        }
    }

    /// The tensor that holds the numbers of a buffer on a GPU, for writing; see [`there`](Self::there).
    pub(crate) fn there_mut(&mut self) -> &mut OnDevice {
        match self {
            Self::Torch(there) => there,
            Self::Host(_) => unreachable!("gradients and moments are where the parameters are"),
        }
    }

    /// Replaces all numbers.
    pub(crate) fn set(&mut self, numbers: &[f32]) {
        match self.write() {
            Ok(own) => own.copy_from_slice(numbers),
            Err(there) => there.set(numbers),
        }
    }

    /// Moves the numbers towards those of `source`, which is in the same memory: `self += tau * (source - self)`.
    pub(crate) fn approach(&mut self, source: &Self, tau: f64) {
        match (self.write(), source) {
            (Ok(own), _) if tau == 1.0 => own.copy_from_slice(source.read()),
            (Ok(own), _) => kernels::approach(own, source.read(), tau as f32),
            (Err(there), Self::Torch(source)) => there.approach(source, tau),
            (Err(there), Self::Host(array)) => there.set(array.read()),
        }
    }
}
