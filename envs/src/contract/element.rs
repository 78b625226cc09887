//! Scalar types of observations and actions.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Scalar type of an observation or action, known at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// Unsigned 8-bit integer, the type of images.
    U8,
    /// Signed 64-bit integer, the type of discrete actions.
    I64,
    /// Single-precision float, the most common type of observations.
    F32,
    /// Double-precision float.
    F64,
}

impl DType {
    /// Size of one scalar in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Name of the type: `u8`, `i64`, `f32` or `f64`.
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

/// A scalar type that environments read or write: `u8`, `i64`, `f32` or `f64`.
pub trait Element:
    bytemuck::Pod
    + Default
    + PartialEq
    + PartialOrd
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The [`DType`] of this scalar type.
    const DTYPE: DType;

    /// Converts to `f64`; exact except for integers beyond 2^53.
    fn to_f64(self) -> f64;

    /// Converts from `f64`: floats round to nearest, integers truncate and saturate.
    fn from_f64(value: f64) -> Self;
}

/// Evaluates `$with` where `$T` is the scalar type that a [`DType`] names.
macro_rules! with_scalar {
    ($dtype:expr, $T:ident => $with:expr) => {
        match $dtype {
            $crate::DType::U8 => {
                type $T = u8;
                $with
            }
            $crate::DType::I64 => {
                type $T = i64;
                $with
            }
            $crate::DType::F32 => {
                type $T = f32;
                $with
            }
            $crate::DType::F64 => {
                type $T = f64;
                $with
            }
        }
    };
}
pub(crate) use with_scalar;

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
