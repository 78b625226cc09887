//! Arrays that are lent.

use crate::base::error::{Error, Result};
use crate::base::kind::{Kind, Scalar, Shape};
use bytemuck::Pod;
use ndarray::ArrayViewD;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// An array that is lent: its memory belongs to another value.
#[derive(Clone, Copy)]
pub struct ArrayRef<'a> {
    kind: Kind,
    pub(super) shape: Shape,
    bytes: &'a [u8],
}

impl<'a> ArrayRef<'a> {
    #[inline]
    pub(crate) fn new(kind: Kind, shape: Shape, bytes: &'a [u8]) -> Self {
        assert_eq!(shape.numel() * kind.size(), bytes.len(), "bytes of an array {shape:?}");
        Self { kind, shape, bytes }
    }

    /// Lends the bytes of `rows` rows of shape `tail`.
    #[inline]
    pub fn of_rows(kind: Kind, rows: usize, tail: &[i64], bytes: &'a [u8]) -> Self {
        Self::new(kind, Shape::of_rows(rows, tail), bytes)
    }

    /// Lends numbers as an array of one axis.
    pub fn of<T: Scalar>(numbers: &'a [T]) -> Self {
        Self::new(T::KIND, Shape::new([numbers.len() as i64]), bytemuck::cast_slice(numbers))
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

    /// Number of numbers.
    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// The contents row by row, each number with the bytes of its type.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number of rows, which is the size of the first axis.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape.first().map_or(1, |&rows| rows as usize)
    }

    /// Whether there are no numbers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.numel() == 0
    }

    /// Number of numbers of one row.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.shape.iter().skip(1).product::<i64>() as usize
    }

    #[inline]
    pub(super) fn row_bytes(&self) -> usize {
        self.width() * self.kind.size()
    }

    /// The rows of a range.
    ///
    /// # Panics
    /// Panics if there are fewer rows.
    #[inline]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.len(), "rows {rows:?} of {}", self.len());
        let width = self.row_bytes();
        let shape = Shape::of_rows(rows.len(), &self.shape[1..]);
        Self { kind: self.kind, shape, bytes: &self.bytes[rows.start * width..rows.end * width] }
    }

    /// One row, without the first axis.
    ///
    /// # Panics
    /// Panics if there are fewer rows.
    #[inline]
    pub fn row(&self, i: usize) -> Self {
        let one = self.rows(i..i + 1);
        Self { shape: Shape::new(self.shape[1..].iter().copied()), ..one }
    }

    /// The same numbers in another shape; one size may be -1, which stands for the rest.
    ///
    /// # Panics
    /// Panics if the shape has another number of numbers.
    pub fn reshape(&self, shape: &[i64]) -> Self {
        let known: i64 = shape.iter().filter(|&&size| size >= 0).product();
        let rest = self.numel() as i64 / known.max(1);
        let shape = Shape::new(shape.iter().map(|&size| if size < 0 { rest } else { size }));
        Self::new(self.kind, shape, self.bytes)
    }

    /// Joins the first two axes to one.
    #[inline]
    pub fn merged(&self) -> Self {
        let first = self.shape[0] * self.shape[1];
        let shape = Shape::of_rows(first as usize, &self.shape[2..]);
        Self { shape, ..*self }
    }

    /// The numbers in their order in memory; `None` if the array holds another type.
    #[inline]
    pub fn numbers<T: Scalar + Pod>(&self) -> Option<&'a [T]> {
        (self.kind == T::KIND).then(|| numbers(self.bytes))
    }

    /// The numbers of an array whose type is known.
    ///
    /// # Panics
    /// Panics if the array holds another type: a bug in this crate.
    pub fn read<T: Scalar + Pod>(&self) -> &'a [T] {
        self.numbers().unwrap_or_else(|| panic!("an array of {:?} was read as {:?}", self.kind, T::KIND))
    }

    /// Copies the numbers to a list, converted to `T`.
    pub fn to_vec<T: Scalar>(&self) -> Vec<T> {
        fn converted<F: Scalar + Pod, T: Scalar>(bytes: &[u8]) -> Vec<T> {
            numbers::<F>(bytes).iter().map(|&x| T::of(x.to_f64())).collect()
        }
        match self.kind {
            Kind::Bool | Kind::U8 => converted::<u8, T>(self.bytes),
            // Not through an f64, which does not hold every integer.
            Kind::I64 => numbers::<i64>(self.bytes).iter().map(|&x| T::of_integer(x)).collect(),
            Kind::F32 => converted::<f32, T>(self.bytes),
            Kind::F64 => converted::<f64, T>(self.bytes),
        }
    }

    /// The numbers as f32, copied only if the array holds another type.
    pub fn to_f32(&self) -> Cow<'a, [f32]> {
        self.numbers().map_or_else(|| Cow::Owned(self.to_vec()), Cow::Borrowed)
    }

    /// Views the array as one of the crate `ndarray`, without a copy. `what` is its name in errors.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the array holds numbers of another type.
    pub fn view<T: Scalar + Pod>(&self, what: &str) -> Result<ArrayViewD<'a, T>> {
        let refuse = |reason: String| Error::state(what, reason);
        let numbers = self
            .numbers()
            .ok_or_else(|| refuse(format!("it holds {:?}, but {:?} was asked for", self.kind, T::KIND)))?;
        let shape: Vec<usize> = self.shape.iter().map(|&n| n as usize).collect();
        ArrayViewD::from_shape(shape, numbers).map_err(|error| refuse(error.to_string()))
    }
}

/// The numbers in some bytes. An empty slice of bytes may be unaligned, which the cast refuses.
#[inline]
fn numbers<T: Pod>(bytes: &[u8]) -> &[T] {
    if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) }
}

impl PartialEq for ArrayRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.shape, self.bytes) == (other.kind, other.shape, other.bytes)
    }
}

impl fmt::Debug for ArrayRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.kind, self.shape)
    }
}
