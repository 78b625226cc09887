//! The vector instructions that the fused engine uses.

use crate::base::{Error, Result};
use pulp::Arch;
use std::sync::OnceLock;

/// Environment variable that chooses the vector instructions: `avx512`, `avx2` or `scalar` (one number at a time).
const VARIABLE: &str = "PAVLOV_SIMD";

/// The widest vector instructions of the processor, or those that `PAVLOV_SIMD` names.
///
/// Every choice computes the same bits. The variable is for measurements, and for tests of this claim.
pub(crate) fn arch() -> Arch {
    static ARCH: OnceLock<Arch> = OnceLock::new();
    *ARCH.get_or_init(|| std::env::var(VARIABLE).ok().and_then(|name| named(&name)).unwrap_or_default())
}

/// Refuses a value of `PAVLOV_SIMD` that names no instructions of this processor.
pub(crate) fn check_arch() -> Result<()> {
    match std::env::var(VARIABLE) {
        Ok(name) if named(&name).is_none() => Err(Error::config(
            VARIABLE,
            name,
            "it names vector instructions of this processor: avx512, avx2 or scalar (one number at a time); without this \
             environment variable the widest are used",
        )),
        _ => Ok(()),
    }
}

/// The vector instructions of a name; `None` if the name is unknown or the processor lacks them.
fn named(name: &str) -> Option<Arch> {
    match name {
        "scalar" => Some(Arch::Scalar),
        #[cfg(target_arch = "x86_64")]
        "avx2" => pulp::x86::V3::try_new().map(Arch::V3),
        #[cfg(target_arch = "x86_64")]
        "avx512" => pulp::x86::V4::try_new().map(Arch::V4),
        _ => None,
    }
}
