//! The numbers of columns that layers and operations take. Another number ends the computation with an error that names the
//! layer.

use crate::base::{Error, Result};
use crate::loss::graph::Op;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Ends the computation of a head or a loss, which cannot return an error, with this one; see [`refusals`].
#[cold]
pub(crate) fn refuse(what: String, reason: String) -> ! {
    resume_unwind(Box::new(Error::state(what, reason)))
}

/// Runs a computation; returns the error with which it was ended by a layer or an operation.
///
/// # Errors
/// Returns [`Error::State`] if a layer or an operation gets another number of columns than it takes.
pub(crate) fn refusals<T>(compute: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(compute)) {
        Ok(result) => result,
        Err(payload) => match payload.downcast::<Error>() {
            Ok(error) => Err(*error),
            Err(payload) => resume_unwind(payload),
        },
    }
}

/// Refuses an input of `gets` columns for the layer `name`, which takes `takes`. A single number has 0 columns.
#[inline]
pub(crate) fn check_layer(name: &str, takes: usize, gets: usize) {
    if takes != gets {
        let gets = if gets == 0 { "a single number".to_owned() } else { gets.to_string() };
        refuse(format!("the layer `{name}`"), format!("it takes {takes} columns, but gets {gets}"));
    }
}

/// Refuses columns that the value does not have.
#[inline]
pub(crate) fn check_one(op: Op, columns: usize) {
    if let Op::Narrow(start, len) = op
        && start + len > columns
    {
        let reason = format!("it takes columns {start} to {} of a value that has {columns}", start + len);
        refuse("`narrow`".into(), reason);
    }
}

/// Refuses values that do not fit together. A single column, or a single number, fits with every value.
#[inline]
pub(crate) fn check_two(op: Op, first: usize, second: usize) {
    let fits = match op {
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Minimum | Op::Maximum => {
            first == second || first <= 1 || second <= 1
        }
        Op::Mask => first == second,
        Op::Gather(width) => second == 1 && width > 0 && first.is_multiple_of(width),
        _ => true,
    };
    if !fits {
        let reason = format!("its values have {first} and {second} columns, which do not fit together");
        refuse(format!("the operation {op:?} of a loss or a network"), reason);
    }
}
