//! Numbers that methods take in every type that programs count in.

/// A number for a stop condition: an integer or a floating-point number of any type. Those above 2^53 are rounded.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number",
    label = "give an integer or a floating-point number"
)]
pub trait Number: private::Sealed {
    /// Returns the number as `f64`.
    fn number(self) -> f64;
}

/// A number of things: an integer of any type. A negative one counts as 0, which whoever needs one thing at least refuses.
#[diagnostic::on_unimplemented(message = "`{Self}` is no count", label = "give an integer")]
pub trait Count: private::Sealed {
    /// Returns the count as `u64`.
    fn count(self) -> u64;
}

mod private {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(
            impl private::Sealed for $number {}
            impl Number for $number {
                fn number(self) -> f64 {
                    self as f64
                }
            }
        )*
    };
}

macro_rules! counts {
    ($($number:ty)*) => {
        $(impl Count for $number {
            fn count(self) -> u64 {
                u64::try_from(self).unwrap_or(0)
            }
        })*
    };
}

numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);
counts!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);
