//! Arrays of numbers in the main memory.
//!
//! An [`Array`] shares its memory with its clones, slices and rows. An [`ArrayRef`] borrows from an array, or from rows
//! that the sampler writes.

use crate::base::error::{Error, Result};
use crate::base::kind::{Kind, Scalar, Shape};
use crate::base::lent::ArrayRef;
use crate::base::memory::Memory;
use bytemuck::Pod;
use ndarray::ArrayViewD;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

/// An array of numbers, row by row without gaps. Clones, slices and rows share the memory.
#[derive(Clone)]
pub struct Array {
    kind: Kind,
    shape: Shape,
    memory: Arc<Memory>,
    /// Index of the array's first byte in the memory.
    start: usize,
}

impl ArrayRef<'_> {
    /// Copies the array.
    #[inline]
    pub fn copied(&self) -> Array {
        Array::from_bytes(self.kind(), self.shape(), self.bytes())
    }

    /// Copies the rows at `index`, in that order.
    ///
    /// # Panics
    /// Panics if an index is negative or too large.
    pub fn gather(&self, index: &[i64]) -> Array {
        self.picked(index.len(), index.iter().map(|&i| i as usize), &self.shape[1..])
    }

    /// Copies the `count` rows that `index` names to rows of shape `tail`. Short rows are moved in registers.
    pub fn picked(&self, count: usize, index: impl Iterator<Item = usize>, tail: &[i64]) -> Array {
        fn short<const W: usize>(from: &[u8], index: impl Iterator<Item = usize>, out: &mut Array) {
            let (from, _) = from.as_chunks::<W>();
            let (to, _) = out.bytes_mut().as_chunks_mut::<W>();
            to.iter_mut().zip(index).for_each(|(to, i)| *to = from[i]);
        }
        let from = self.bytes();
        let width = self.row_bytes();
        let shape = Shape::of_rows(count, tail);
        if !matches!(width, 4 | 8 | 16) {
            let rows = index.map(|i| &from[i * width..][..width]);
            return Array::over(self.kind(), shape, Memory::joined(count * width, rows));
        }
        let mut out = Array::zeros(self.kind(), &shape);
        match width {
            4 => short::<4>(from, index, &mut out),
            8 => short::<8>(from, index, &mut out),
            _ => short::<16>(from, index, &mut out),
        }
        out
    }

    /// Reorders time-major rows `[T, N, ...]` to `[N * T, ...]`, as `SampleBatch` stores them.
    pub(crate) fn env_major(&self) -> Array {
        let [steps, copies] = [self.shape[0], self.shape[1]].map(|n| n as usize);
        let rows = self.merged();
        if steps == 1 || copies == 1 {
            return rows.copied();
        }
        let index = (0..copies).flat_map(|copy| (0..steps).map(move |t| t * copies + copy));
        rows.picked(steps * copies, index, &rows.shape[1..])
    }
}

impl Array {
    /// Makes an array of zeros.
    pub fn zeros(kind: Kind, shape: &[i64]) -> Self {
        let shape = Shape::new(shape.iter().copied());
        Self::over(kind, shape, Memory::zeros(shape.numel() * kind.size()))
    }

    /// Makes an array over new memory.
    #[inline]
    pub(crate) fn over(kind: Kind, shape: Shape, memory: Memory) -> Self {
        Self { kind, shape, memory: Arc::new(memory), start: 0 }
    }

    /// Makes an array over a part of memory that others share, or copies the part if its numbers are not aligned.
    pub(crate) fn in_memory(memory: &Arc<Memory>, bytes: Range<usize>, kind: Kind, shape: &[i64]) -> Self {
        let part = &memory.bytes()[bytes.clone()];
        if part.as_ptr().addr().is_multiple_of(kind.size()) {
            let shape = Shape::new(shape.iter().copied());
            return Self { kind, shape, memory: Arc::clone(memory), start: bytes.start };
        }
        Self::from_bytes(kind, shape, part)
    }

    /// Copies bytes to an array; their number must match the shape.
    pub fn from_bytes(kind: Kind, shape: &[i64], bytes: &[u8]) -> Self {
        let shape = Shape::new(shape.iter().copied());
        assert_eq!(shape.numel() * kind.size(), bytes.len(), "bytes of an array {shape:?}");
        Self::over(kind, shape, Memory::joined(bytes.len(), [bytes]))
    }

    /// Copies numbers to an array of one axis.
    pub fn from_slice<T: Scalar>(numbers: &[T]) -> Self {
        Self::from_vec(numbers, &[numbers.len() as i64])
    }

    /// Copies numbers to an array of the shape `shape`.
    ///
    /// # Panics
    /// Panics if the shape has another number of numbers.
    pub fn from_vec<T: Scalar>(numbers: impl AsRef<[T]>, shape: &[i64]) -> Self {
        Self::from_bytes(T::KIND, shape, bytemuck::cast_slice(numbers.as_ref()))
    }

    /// Copies the rows of several arrays, one after the other, to one.
    ///
    /// # Panics
    /// Panics if there is no array, or if they differ in the kind of their numbers or in the shape of a row.
    pub fn concat<'a>(parts: impl IntoIterator<Item = impl Into<ArrayRef<'a>>>) -> Self {
        let parts: Vec<ArrayRef<'a>> = parts.into_iter().map(Into::into).collect();
        let first = parts[0];
        let alike = |part: &ArrayRef<'_>| part.kind() == first.kind() && part.shape[1..] == first.shape[1..];
        let odd = parts.iter().find(|part| !alike(part));
        assert!(odd.is_none(), "{:?} cannot follow {first:?}", odd.unwrap_or(&first));
        let shape = Shape::of_rows(parts.iter().map(ArrayRef::len).sum(), &first.shape[1..]);
        let bytes = parts.iter().map(|part| part.bytes().len()).sum();
        Self::over(first.kind(), shape, Memory::joined(bytes, parts.iter().map(|part| part.bytes())))
    }

    /// Reads an array from the next bytes of `from`. Memory grows as bytes arrive.
    ///
    /// # Errors
    /// Fails with the errors of `from`, and if the memory for these bytes cannot be allocated.
    pub fn read_from(from: &mut impl Read, kind: Kind, shape: &[i64]) -> io::Result<Self> {
        let shape = Shape::new(shape.iter().copied());
        Ok(Self::over(kind, shape, Memory::read_from(from, shape.numel() * kind.size())?))
    }

    /// Lends the array.
    #[inline]
    pub fn lend(&self) -> ArrayRef<'_> {
        ArrayRef::new(self.kind, self.shape, self.bytes())
    }

    /// The type of the numbers.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The sizes of the axes.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The sizes of the axes, as a list.
    pub fn size(&self) -> Vec<i64> {
        self.shape.to_vec()
    }

    /// Number of numbers.
    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// Number of rows, which is the size of the first axis.
    #[inline]
    pub fn len(&self) -> usize {
        self.lend().len()
    }

    /// Whether there are no numbers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.numel() == 0
    }

    /// The contents row by row, each number with the bytes of its type.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[self.start..][..self.numel() * self.kind.size()]
    }

    /// The rows of a range, which share the memory.
    ///
    /// # Panics
    /// Panics if there are fewer rows.
    #[must_use]
    #[inline]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let lent = self.lend();
        let start = self.start + rows.start * lent.row_bytes();
        Self { kind: self.kind, shape: lent.rows(rows).shape, memory: Arc::clone(&self.memory), start }
    }

    /// The same numbers in another shape, in the same memory; one size may be -1, which stands for the rest.
    ///
    /// # Panics
    /// Panics if the shape has another number of numbers.
    #[must_use]
    #[inline]
    pub fn reshape(&self, shape: &[i64]) -> Self {
        Self { shape: self.lend().reshape(shape).shape, ..self.clone() }
    }

    /// Copies the rows at `index`, in that order.
    ///
    /// # Panics
    /// Panics if an index is negative or too large.
    pub fn gather(&self, index: &[i64]) -> Self {
        self.lend().gather(index)
    }

    /// The numbers in their order in memory; `None` if the array holds another type.
    #[inline]
    pub fn numbers<T: Scalar + Pod>(&self) -> Option<&[T]> {
        self.lend().numbers()
    }

    /// The numbers of an array whose type is known.
    ///
    /// # Panics
    /// Panics if the array holds another type: a bug in this crate.
    #[inline]
    pub fn read<T: Scalar + Pod>(&self) -> &[T] {
        self.lend().read()
    }

    /// Copies the numbers to a list, converted to `T`.
    pub fn to_vec<T: Scalar>(&self) -> Vec<T> {
        self.lend().to_vec()
    }

    /// The numbers as f32, copied only if the array holds another type.
    #[inline]
    pub fn to_f32(&self) -> Cow<'_, [f32]> {
        self.lend().to_f32()
    }

    /// The array with numbers of another type. If it has this type already, the memory is shared.
    #[must_use]
    pub fn to_kind(&self, kind: Kind) -> Self {
        if kind == self.kind {
            return self.clone();
        }
        match kind {
            Kind::Bool => Self::from_vec(self.to_vec::<bool>(), &self.shape),
            Kind::U8 => Self::from_vec(self.to_vec::<u8>(), &self.shape),
            Kind::I64 => Self::from_vec(self.to_vec::<i64>(), &self.shape),
            Kind::F32 => Self::from_vec(self.to_vec::<f32>(), &self.shape),
            Kind::F64 => Self::from_vec(self.to_vec::<f64>(), &self.shape),
        }
    }

    /// Views the array as one of the crate `ndarray`, without a copy. `what` is its name in errors.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the array holds numbers of another type.
    pub fn view<T: Scalar + Pod>(&self, what: &str) -> Result<ArrayViewD<'_, T>> {
        self.lend().view(what)
    }

    /// The contents, for writing.
    ///
    /// # Panics
    /// Panics if another array shares the memory: a bug in this crate.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.numel() * self.kind.size();
        let memory = Arc::get_mut(&mut self.memory).expect("who writes an array owns its memory alone");
        &mut memory.bytes_mut()[self.start..][..bytes]
    }

    /// The numbers, for writing.
    ///
    /// # Panics
    /// Panics if the array holds another type, or if another array shares the memory: a bug in this crate.
    #[inline]
    pub(crate) fn write<T: Scalar + Pod>(&mut self) -> &mut [T] {
        assert_eq!(self.kind, T::KIND, "the type of an array's numbers");
        let bytes = self.bytes_mut();
        if bytes.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(bytes) }
    }
}

impl<'a> From<&'a Array> for ArrayRef<'a> {
    fn from(array: &'a Array) -> Self {
        array.lend()
    }
}

impl From<&Array> for Array {
    fn from(array: &Array) -> Self {
        array.clone()
    }
}

impl From<ArrayRef<'_>> for Array {
    fn from(array: ArrayRef<'_>) -> Self {
        array.copied()
    }
}

impl<T: Scalar> From<&[T]> for Array {
    fn from(numbers: &[T]) -> Self {
        Self::from_slice(numbers)
    }
}

impl<T: Scalar> From<&Vec<T>> for Array {
    fn from(numbers: &Vec<T>) -> Self {
        Self::from_slice(numbers)
    }
}

impl<T: Scalar> From<Vec<T>> for Array {
    fn from(numbers: Vec<T>) -> Self {
        Self::from_slice(&numbers)
    }
}

/// Copies the numbers, converted to `T`; it never fails.
impl<T: Scalar> TryFrom<&Array> for Vec<T> {
    type Error = Error;

    fn try_from(array: &Array) -> Result<Self> {
        Ok(array.to_vec())
    }
}

/// Copies the numbers, converted to `T`; it never fails.
impl<T: Scalar> TryFrom<Array> for Vec<T> {
    type Error = Error;

    fn try_from(array: Array) -> Result<Self> {
        Ok(array.to_vec())
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.lend() == other.lend()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lend().fmt(f)
    }
}
