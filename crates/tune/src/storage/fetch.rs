//! Finds a checkpoint given as a local path or as a storage URL.

use std::path::{Path, PathBuf};

use super::{checkpoints, open, runs, scheme, work_dir};
use crate::base::Result;
use crate::checkpoint::MANIFEST;

/// Returns the local directory of the checkpoint at `place`, downloading it first if `place` is a URL.
///
/// A local path is returned unchanged. A URL is downloaded to `<results root>/s3/bucket/...` and verified, unless the
/// checkpoint is there already. The URL of a run stands for the run's newest checkpoint.
///
/// # Errors
/// Returns [`Error::Checkpoint`](crate::Error::Checkpoint) if there is no checkpoint at the URL, or if it is damaged,
/// [`Error::Storage`](crate::Error::Storage) if the storage cannot be used, [`Error::Config`](crate::Error::Config) if
/// no storage is registered for the URL's scheme, and [`Error::Io`](crate::Error::Io) if the files cannot be written
/// here.
pub fn fetch_checkpoint(place: &Path) -> Result<PathBuf> {
    let Some(url) = place.to_str().filter(|_| scheme(place).is_some()) else {
        return Ok(place.to_path_buf());
    };
    let storage = open(url)?;
    let dir = work_dir(url)?;
    let objects = storage.list("")?;
    let is_checkpoint = objects.iter().any(|object| object.path == MANIFEST);
    match runs::newest(&*storage, &objects)? {
        Some((_, name)) if !is_checkpoint => {
            let dir = dir.join(&name);
            checkpoints::get(&*storage, &name, &dir)?;
            Ok(dir)
        }
        _ => {
            checkpoints::get(&*storage, "", &dir)?;
            Ok(dir)
        }
    }
}
