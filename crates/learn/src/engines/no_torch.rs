//! The refusal of networks that only libtorch computes, in a build without it.

use crate::base::{Error, Result};
use crate::engines::backend::{Backend, Sets};
use crate::params::Encoding;
use std::sync::Arc;

/// Refuses the network.
///
/// # Errors
/// Always returns [`Error::NeedsTorch`], with `why`.
pub(crate) fn libtorch(
    _: &Sets,
    _: &Arc<Encoding>,
    why: impl FnOnce() -> (String, &'static str),
) -> Result<Box<dyn Backend>> {
    let (what, instead) = why();
    Err(Error::NeedsTorch { what, instead: instead.into() })
}
