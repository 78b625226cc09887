//! Tensors of libtorch as arrays, and arrays as tensors.

use crate::base::array::Array;
use crate::base::device::Device;
use crate::base::error::{Error, Result, without_backtrace};
use crate::base::kind::{Kind, Scalar};
use crate::base::lent::ArrayRef;
use crate::base::state::State;
use crate::base::stats::{StatValues, Stats};
use crate::base::unread::Unread;
use bytemuck::Pod;
use tch::Tensor;

/// A contiguous CPU tensor that any thread may read and none may write.
#[derive(Debug)]
pub(crate) struct Still(Tensor);

// SAFETY: libtorch counts references atomically and reads a tensor from any number of threads; `new` asks that none writes.
unsafe impl Sync for Still {}

impl Still {
    /// Keeps `tensor`. While the new value lives, no code may write to the tensor.
    pub(crate) fn new(tensor: Tensor) -> Self {
        Self(tensor)
    }

    /// The tensor, for reading.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.0
    }
}

impl From<Device> for tch::Device {
    fn from(device: Device) -> Self {
        match device {
            Device::Cpu => Self::Cpu,
            Device::Cuda(i) => Self::Cuda(i),
        }
    }
}

impl From<tch::TchError> for Error {
    fn from(error: tch::TchError) -> Self {
        Self::Torch(without_backtrace(&error.to_string()).into())
    }
}

/// libtorch's name of a type of numbers.
pub(crate) fn torch_kind(kind: Kind) -> tch::Kind {
    match kind {
        Kind::Bool => tch::Kind::Bool,
        Kind::U8 => tch::Kind::Uint8,
        Kind::I64 => tch::Kind::Int64,
        Kind::F32 => tch::Kind::Float,
        Kind::F64 => tch::Kind::Double,
    }
}

/// The type of numbers in which an array holds those of a tensor. Other integers become i64, other floats f32.
fn kind_of(kind: tch::Kind) -> Kind {
    match kind {
        tch::Kind::Bool => Kind::Bool,
        tch::Kind::Uint8 => Kind::U8,
        tch::Kind::Int64 | tch::Kind::Int | tch::Kind::Int16 | tch::Kind::Int8 => Kind::I64,
        tch::Kind::Double => Kind::F64,
        _ => Kind::F32,
    }
}

/// Copies a tensor from any device: an array never shows what is written to the tensor later.
impl From<Tensor> for Array {
    fn from(tensor: Tensor) -> Self {
        Self::from(&tensor)
    }
}

/// Copies a tensor from any device.
impl From<&Tensor> for Array {
    fn from(tensor: &Tensor) -> Self {
        let kind = kind_of(tensor.kind());
        let tensor = tensor.detach().to_device(tch::Device::Cpu).to_kind(torch_kind(kind)).contiguous();
        let mut array = Self::zeros(kind, &tensor.size());
        tensor.copy_data_u8(array.bytes_mut(), tensor.numel());
        array
    }
}

impl ArrayRef<'_> {
    /// Copies the array to a tensor on the CPU.
    pub fn to_tensor(&self) -> Tensor {
        Tensor::from_data_size(self.bytes(), self.shape(), torch_kind(self.kind()))
    }
}

impl Array {
    /// Copies the array to a tensor on the CPU.
    pub fn to_tensor(&self) -> Tensor {
        self.lend().to_tensor()
    }
}

impl From<&Array> for Tensor {
    fn from(array: &Array) -> Self {
        array.to_tensor()
    }
}

/// The numbers of a contiguous CPU tensor, for reading.
///
/// # Panics
/// Panics if the tensor is on a GPU, strided or of another kind: a bug in this crate.
pub(crate) fn read<T: Scalar + Pod>(tensor: &Tensor) -> &[T] {
    assert!(tensor.is_contiguous() && tensor.device() == tch::Device::Cpu);
    assert_eq!(tensor.kind(), torch_kind(T::KIND));
    let numel = tensor.numel();
    if numel == 0 {
        return &[]; // libtorch has no memory for it: its pointer is null.
    }
    // SAFETY: checked above: `numel` scalars of this kind, contiguous, alive as long as the borrow.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<T>(), numel) }
}

/// The numbers of a contiguous f32 tensor on the CPU that the caller owns, for writing.
///
/// # Panics
/// Panics if the tensor is on a GPU, strided or of another kind: a bug in this crate.
pub(crate) fn write(tensor: &mut Tensor) -> &mut [f32] {
    let numbers = read::<f32>(tensor);
    // SAFETY: as in `read`; the caller's `&mut` keeps other slices away.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_ptr().cast_mut(), numbers.len()) }
}

impl State {
    /// Adds a copy of a tensor as an array of the name `key`.
    pub fn set_tensor(&mut self, key: &str, tensor: &Tensor) {
        self.set_array(key, Array::from(tensor));
    }

    /// Copies an array to a new tensor.
    ///
    /// # Errors
    /// Returns [`Error::State`] if no array has this name.
    pub fn tensor(&self, key: &str) -> Result<Tensor> {
        Ok(self.array(key)?.to_tensor())
    }
}

impl Stats {
    /// Makes statistics from names and a tensor `[names]` that is read when a result is made.
    pub fn unread(names: Vec<&'static str>, values: Tensor) -> Self {
        let mut stats = Self::default();
        stats.names = names;
        stats.values = StatValues::Unread(Unread(values));
        stats
    }

    /// Adds a statistic that is a tensor of one number.
    pub fn push_unread(&mut self, name: &'static str, value: &Tensor) {
        match &mut self.values {
            StatValues::Host(_) => self.push(name, value.double_value(&[])),
            StatValues::Unread(Unread(values)) => {
                *values = Tensor::cat(&[&*values, &value.view(1)], 0);
                self.names.push(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_does_not_show_what_is_written_to_its_tensor_later() {
        let mut tensor = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).view([2, 2]);
        let array = Array::from(tensor.shallow_clone());
        let turned = Array::from(tensor.transpose(0, 1));
        let _ = tensor.fill_(0.0);
        assert_eq!((array.shape(), array.read::<f32>()), (&[2, 2][..], &[1.0, 2.0, 3.0, 4.0][..]));
        assert_eq!(turned.read::<f32>(), [1.0, 3.0, 2.0, 4.0]);
        assert!(Array::from(Tensor::from_slice::<f32>(&[])).is_empty());
    }
}
