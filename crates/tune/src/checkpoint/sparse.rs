//! Refusal of huge files that are mostly holes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pavlov_processes::available_memory;

use crate::base::{Error, Result};

/// Refuses a file that this machine's memory cannot hold and that is mostly holes, i.e. blocks that the file system does
/// not store: its checksum would take minutes, and pavlov never writes such a file.
pub(super) fn refuse(dir: &Path, name: &str) -> Result<()> {
    let path = dir.join(name);
    let attributes = fs::metadata(&path).map_err(Error::io("read", &path))?;
    let stored = attributes.blocks() * 512;
    if stored >= attributes.len() / 8 || available_memory().is_none_or(|memory| attributes.len() <= memory) {
        return Ok(());
    }
    let reason = format!(
        "{name} has {} bytes, more than this machine's memory, of which the disk stores {stored}: it is a sparse file, \
         which pavlov never writes; take the checkpoint from its source again",
        attributes.len()
    );
    Err(Error::checkpoint(dir, reason))
}
