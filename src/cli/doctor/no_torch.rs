//! The line of the report about libtorch, in a build without it.

use super::Found;
use super::line::Line;

/// Says what the build is without.
pub(super) fn found() -> Found {
    let says = "not in this build: GPUs, TorchScript and networks written in tch are not there; all else is";
    Found { lib: None, version: None, lines: vec![Line::ok("libtorch", says)] }
}
