//! The scalar types that observations and actions are made of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Scalar type of a row, at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// Bytes, as in images.
    U8,
    /// Integers, as in discrete spaces.
    I64,
    /// Single precision, the usual observation.
    F32,
    /// Double precision.
    F64,
}

impl DType {
    /// Bytes per scalar.
    pub const fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// `u8`, `i64`, `f32` or `f64`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A scalar that an environment reads or writes: `u8`, `i64`, `f32` or `f64`.
pub trait Element:
    bytemuck::Pod + Default + PartialEq + PartialOrd + fmt::Debug + Send + Sync + 'static
{
    /// This type at run time.
    const DTYPE: DType;

    /// Exact except for integers beyond 2^53.
    fn to_f64(self) -> f64;

    /// Rounds to nearest for floats; truncates and saturates for integers.
    fn from_f64(value: f64) -> Self;
}

macro_rules! element {
    ($($type:ty => $dtype:ident),*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;

            fn to_f64(self) -> f64 {
                self as f64
            }

            fn from_f64(value: f64) -> Self {
                value as Self
            }
        }
    )*};
}

element!(u8 => U8, i64 => I64, f32 => F32, f64 => F64);
