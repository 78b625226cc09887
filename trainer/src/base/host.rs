//! Tensors whose memory the sampler writes row by row, or that are filled from a socket: the one place with `unsafe`.
//!
//! A [`HostTensor`] owns its storage (made here, contiguous, on the CPU) and hands out slices of it under the usual
//! borrow rules. The tensors it lends ([`HostTensor::row`], [`HostTensor::tensor`]) alias that storage; they stay
//! inside the crate, are read by libtorch on the same thread while no slice is held, and never outlive the owner's use.

use bytemuck::Pod;
use std::io;
use std::io::Read;
use std::ptr::NonNull;
use tch::{Device, Kind, Tensor};

/// A contiguous CPU tensor `[rows, ...]` with byte access to its rows.
#[derive(Debug)]
pub(crate) struct HostTensor {
    tensor: Tensor,
    start: Start,
    rows: Vec<Tensor>,
    row_bytes: usize,
}

/// Address of the storage, kept because asking libtorch for it at every row costs more than copying a row.
#[derive(Clone, Copy, Debug)]
struct Start(NonNull<u8>);

// SAFETY: the pointer moves together with the tensor that owns the memory.
unsafe impl Send for Start {}

impl HostTensor {
    /// Makes a tensor of zeros of shape `[rows, tail...]`.
    pub(crate) fn zeros(rows: usize, tail: &[i64], kind: Kind) -> Self {
        let shape: Vec<i64> = std::iter::once(rows as i64).chain(tail.iter().copied()).collect();
        let tensor = Tensor::zeros(&shape, (kind, Device::Cpu));
        let row_bytes = tail.iter().product::<i64>() as usize * kind.elt_size_in_bytes();
        let views = (0..rows as i64).map(|i| tensor.get(i)).collect();
        // libtorch allocates nothing for an empty tensor: its pointer is null.
        let start = Start(NonNull::new(tensor.data_ptr().cast()).unwrap_or(NonNull::dangling()));
        Self { tensor, start, rows: views, row_bytes }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The whole tensor (aliases the storage).
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Row `i` as a tensor (aliases the storage).
    pub(crate) fn row(&self, i: usize) -> &Tensor {
        &self.rows[i]
    }

    /// The bytes of row `i`, for reading and writing.
    pub(crate) fn bytes_mut(&mut self, i: usize) -> &mut [u8] {
        assert!(i < self.rows.len(), "row {i} of {}", self.rows.len());
        // SAFETY: the storage is contiguous, owned by `self.tensor`, `rows * row_bytes` long, initialised with
        // zeros, and `&mut self` keeps every other slice away.
        unsafe {
            let start = self.start.0.as_ptr().add(i * self.row_bytes);
            std::slice::from_raw_parts_mut(start, self.row_bytes)
        }
    }

    /// Row `i` as a slice of scalars; `T` is the tensor's type of scalars.
    pub(crate) fn slice_mut<T: Pod>(&mut self, i: usize) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes_mut(i))
    }

    /// Row `i` of a tensor of bools, as a slice.
    pub(crate) fn bools_mut(&mut self, i: usize) -> &mut [bool] {
        bytemuck::checked::cast_slice_mut(self.bytes_mut(i))
    }

    /// The bytes of part `i` of row `row`, which is divided into `of` equal parts.
    pub(crate) fn part_mut(&mut self, row: usize, i: usize, of: usize) -> &mut [u8] {
        let bytes = self.bytes_mut(row);
        let part = bytes.len() / of;
        &mut bytes[i * part..][..part]
    }

    /// Copies part `i` of row `from` over part `i` of row `to`; both rows are divided into `of` equal parts.
    pub(crate) fn copy_part(&mut self, from: usize, to: usize, i: usize, of: usize) {
        assert!(from < self.rows.len() && to < self.rows.len() && i < of);
        let part = self.row_bytes / of;
        // SAFETY: as in `bytes_mut`, for all rows at once.
        let all = unsafe {
            std::slice::from_raw_parts_mut(self.start.0.as_ptr(), self.rows.len() * self.row_bytes)
        };
        let at = |row: usize| row * self.row_bytes + i * part;
        all.copy_within(at(from)..at(from) + part, at(to));
    }

    /// Copies row `from` over row `to`.
    pub(crate) fn copy_row(&mut self, from: usize, to: usize) {
        assert!(from < self.rows.len() && to < self.rows.len());
        if from != to {
            // SAFETY: as in `bytes_mut`; two different rows do not overlap.
            unsafe {
                let base = self.start.0.as_ptr();
                std::ptr::copy_nonoverlapping(
                    base.add(from * self.row_bytes),
                    base.add(to * self.row_bytes),
                    self.row_bytes,
                );
            }
        }
    }
}

/// Copies numbers to a new CPU tensor of this shape. (`Tensor::from_slice` fills the memory with zeros before it copies.)
///
/// # Panics
/// Panics if `shape` has another number of elements: a bug in this crate.
pub(crate) fn tensor_of<T: Pod + tch::kind::Element>(numbers: &[T], shape: &[i64]) -> Tensor {
    tensor_of_bytes(bytemuck::cast_slice(numbers), shape, T::KIND)
}

/// Copies bytes to a new CPU tensor of this shape, with scalars of type `kind`; see [`tensor_of`].
pub(crate) fn tensor_of_bytes(from: &[u8], shape: &[i64], kind: Kind) -> Tensor {
    let mut tensor = Tensor::empty(shape, (kind, Device::Cpu));
    bytes_mut(&mut tensor).copy_from_slice(from);
    tensor
}

/// The numbers of a contiguous CPU tensor, for reading.
///
/// # Panics
/// Panics if the tensor is on a GPU, strided or of another kind: a bug in this crate.
pub(crate) fn read<T: Pod + tch::kind::Element>(tensor: &Tensor) -> &[T] {
    assert!(tensor.is_contiguous() && tensor.device() == Device::Cpu && tensor.kind() == T::KIND);
    let numel = size(tensor).iter().product::<i64>() as usize;
    if numel == 0 {
        return &[]; // libtorch has no memory for it: its pointer is null.
    }
    // SAFETY: checked above: `numel` scalars of this kind, contiguous, alive as long as the borrow.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<T>(), numel) }
}

/// The sizes of a tensor's axes, padded with 1 to eight numbers. Acting calls this at every step: unlike
/// [`Tensor::size`] it allocates nothing.
///
/// # Panics
/// Panics if the tensor has more than eight axes: a bug in this crate.
pub(crate) fn size(tensor: &Tensor) -> [i64; 8] {
    let mut sizes = [1; 8];
    assert!(tensor.dim() <= sizes.len(), "{} axes", tensor.dim());
    // SAFETY: libtorch writes one number per axis, and `sizes` has room for all.
    unsafe { torch_sys::at_shape(tensor.as_ptr().cast_mut(), sizes.as_mut_ptr()) };
    sizes
}

/// The bytes of a contiguous CPU tensor.
pub(crate) fn bytes(tensor: &Tensor) -> &[u8] {
    assert!(tensor.is_contiguous() && tensor.device() == Device::Cpu);
    let numel = size(tensor).iter().product::<i64>() as usize;
    if numel == 0 {
        return &[];
    }
    // SAFETY: as in `read`.
    unsafe {
        std::slice::from_raw_parts(tensor.data_ptr().cast::<u8>(), numel * tensor.kind().elt_size_in_bytes())
    }
}

/// The numbers of a contiguous CPU tensor that the caller owns, for writing.
///
/// # Panics
/// Panics if the tensor is on a GPU, strided or of another kind: a bug in this crate.
pub(crate) fn write<T: Pod + tch::kind::Element>(tensor: &mut Tensor) -> &mut [T] {
    assert!(tensor.kind() == T::KIND);
    if tensor.numel() == 0 {
        return &mut []; // An empty slice of bytes may be unaligned for `T`, which the cast refuses.
    }
    bytemuck::cast_slice_mut(bytes_mut(tensor))
}

/// The bytes of a contiguous CPU tensor made by the caller, for writing.
pub(crate) fn bytes_mut(tensor: &mut Tensor) -> &mut [u8] {
    assert!(tensor.is_contiguous() && tensor.device() == Device::Cpu);
    if tensor.numel() == 0 {
        return &mut [];
    }
    // SAFETY: as in `read`; the caller's `&mut` keeps other slices away.
    unsafe {
        std::slice::from_raw_parts_mut(
            tensor.data_ptr().cast::<u8>(),
            tensor.numel() * tensor.kind().elt_size_in_bytes(),
        )
    }
}

/// A contiguous CPU tensor that any thread may read and none may write.
#[derive(Debug)]
pub(crate) struct Still(Tensor);

// SAFETY: libtorch counts references atomically and reads a tensor from any number of threads; `new` asks that none writes.
unsafe impl Sync for Still {}

impl Still {
    /// Shares the memory of `tensor`, to which nobody may write while the new value lives. A tensor that is strided or
    /// on a GPU is copied.
    pub(crate) fn new(tensor: &Tensor) -> Self {
        Self(tensor.detach().to_device(Device::Cpu).contiguous())
    }

    /// The tensor, for reading.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.0
    }

    /// Returns the tensor; nothing else may share its memory.
    pub(crate) fn into_tensor(self) -> Tensor {
        self.0
    }
}

/// Number of bytes that [`read_from`] reads in one call.
const AT_ONCE: usize = 256 << 10;

/// Reads the next bytes of `from` into a new tensor. Memory grows as bytes arrive.
///
/// # Errors
/// Fails with the errors of `from`, and if the memory for these bytes cannot be allocated.
pub(crate) fn read_from(from: &mut impl Read, kind: Kind, shape: &[i64]) -> io::Result<Tensor> {
    let tensor = Tensor::f_empty(shape, (kind, Device::Cpu))
        .map_err(|e| io::Error::new(io::ErrorKind::OutOfMemory, e))?;
    let bytes = tensor.numel() * kind.elt_size_in_bytes();
    for start in (0..bytes).step_by(AT_ONCE) {
        let count = AT_ONCE.min(bytes - start);
        // SAFETY: the tensor was made here: contiguous, `bytes` long, and no one else has it. The part is initialised
        // before it is lent.
        let part = unsafe {
            let part = tensor.data_ptr().cast::<u8>().add(start);
            part.write_bytes(0, count);
            std::slice::from_raw_parts_mut(part, count)
        };
        from.read_exact(part)?;
    }
    Ok(tensor)
}
