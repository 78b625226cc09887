//! Checkpoints from anywhere.

use std::path::{Path, PathBuf};

use crate::{Result, storage};

/// The directory of the checkpoint at `place`: a path is given back as it is; what a URL names is downloaded and
/// verified, to `<results root>/s3/bucket/...`, unless it is there already.
///
/// # Errors
/// [`Error::Checkpoint`](crate::Error::Checkpoint) if there is none at the URL, or it is damaged;
/// [`Error::Storage`](crate::Error::Storage).
pub fn fetch(place: &Path) -> Result<PathBuf> {
    let Some(url) = place.to_str().filter(|_| storage::scheme(place).is_some()) else {
        return Ok(place.to_path_buf());
    };
    let dir = storage::work_dir(url)?;
    storage::get_checkpoint(&*storage::open(url)?, "", &dir)?;
    Ok(dir)
}
