//! The types of numbers that arrays hold, and the shapes of arrays.

use bytemuck::NoUninit;
use std::fmt;
use std::ops::Deref;

/// The type of an array's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Flags of one byte: 0 or 1.
    Bool,
    /// Unsigned bytes.
    U8,
    /// Signed integers of 64 bits.
    I64,
    /// Floating-point numbers of 32 bits.
    F32,
    /// Floating-point numbers of 64 bits.
    F64,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Bool, Self::U8, Self::I64, Self::F32, Self::F64];

    /// Number of bytes of one number.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 => 1,
            Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}

/// A type of numbers that arrays can hold. It is implemented for `bool`, `u8`, `i64`, `f32` and `f64`.
pub trait Scalar: NoUninit {
    /// The kind of arrays of these numbers.
    const KIND: Kind;
    /// Converts the number to an f64, flags to 0 or 1.
    fn to_f64(self) -> f64;
    /// Converts an f64 to the number, as `as` does; a flag is set unless the number is 0.
    fn of(number: f64) -> Self;
    /// Converts an integer to the number, as `as` does; a flag is set unless the integer is 0.
    fn of_integer(integer: i64) -> Self;
}

macro_rules! scalar {
    ($($type:ident $kind:ident;)*) => {$(
        impl Scalar for $type {
            const KIND: Kind = Kind::$kind;
            #[inline]
            fn to_f64(self) -> f64 { self as f64 }
            fn of(number: f64) -> Self { number as Self }
            fn of_integer(integer: i64) -> Self { integer as Self }
        }
    )*};
}

scalar! { u8 U8; i64 I64; f32 F32; f64 F64; }

impl Scalar for bool {
    const KIND: Kind = Kind::Bool;
    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }
    #[inline]
    fn of(number: f64) -> Self {
        number != 0.0
    }
    #[inline]
    fn of_integer(integer: i64) -> Self {
        integer != 0
    }
}

/// Largest number of axes of an array.
pub const MAX_AXES: usize = 8;

/// The sizes of an array's axes, without memory of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    axes: usize,
    sizes: [i64; MAX_AXES],
}

impl Shape {
    /// # Panics
    /// Panics if there are more than eight axes.
    pub(crate) fn new(axes: impl IntoIterator<Item = i64>) -> Self {
        let mut shape = Self { axes: 0, sizes: [0; MAX_AXES] };
        for size in axes {
            assert!(shape.axes < MAX_AXES, "an array has at most {MAX_AXES} axes");
            shape.sizes[shape.axes] = size;
            shape.axes += 1;
        }
        shape
    }

    /// The shape of `rows` rows `tail`.
    #[inline]
    pub(crate) fn of_rows(rows: usize, tail: &[i64]) -> Self {
        Self::new([rows as i64].into_iter().chain(tail.iter().copied()))
    }

    #[inline]
    pub(crate) fn numel(&self) -> usize {
        self.iter().product::<i64>() as usize
    }
}

impl Deref for Shape {
    type Target = [i64];
    #[inline]
    fn deref(&self) -> &[i64] {
        &self.sizes[..self.axes]
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
