//! Run directories at a URL: their small files, and checkpoints named like `checkpoint_000010`.

use std::fs;
use std::path::{Path, PathBuf};

use super::checkpoints::{self, manifest};
use super::files::{download_small_files, is_small_file};
use super::{Object, Storage, open, work_dir};
use crate::base::{Error, Result};
use crate::checkpoint::{self, MANIFEST, Written};

/// Number and time that tell when a checkpoint was written, and the checkpoint's name.
pub(crate) type WrittenAs = (Written, String);

/// Downloads the run at `url` and returns its local directory, `<results root>/s3/bucket/run`, in the state of the run's
/// newest checkpoint.
///
/// If the local directory is at least as far as the URL, nothing is downloaded. Otherwise its small files and checkpoints
/// are replaced by the small files and the newest checkpoint from the URL.
///
/// # Errors
/// Returns [`Error::Experiment`] if there is no run, [`Error::Checkpoint`] if its newest checkpoint is damaged,
/// [`Error::Config`] if no storage is registered for the URL's scheme, [`Error::Storage`] if the storage cannot be used, and
/// [`Error::Io`] if local files cannot be read or written.
pub fn fetch_run(url: &str) -> Result<PathBuf> {
    let storage = open(url)?;
    let dir = work_dir(url)?;
    let objects = storage.list("")?;
    let there = newest(&*storage, &objects)?;
    let here = if dir.is_dir() { checkpoint::latest(&dir)? } else { None };
    let here =
        here.map(|path| checkpoint::read_manifest(&path)).transpose()?.map(|manifest| manifest.written());
    let is_ahead = match (&here, &there) {
        (Some(here), Some((there, _))) => here >= there,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => small_files(&dir).next().is_some(),
    };
    if is_ahead {
        return Ok(dir);
    }
    if objects.is_empty() {
        return Err(Error::experiment(Path::new(url), "there is no run: nothing lies there"));
    }
    fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
    for (_, path) in checkpoint::list(&dir)? {
        checkpoint::remove(&path)?;
    }
    for path in small_files(&dir) {
        fs::remove_file(&path).map_err(Error::io("delete", &path))?;
    }
    download_small_files(&*storage, &objects, &dir)?;
    // The checkpoint comes last: once it is here, the local directory counts as complete.
    if let Some((_, name)) = there {
        checkpoints::get(&*storage, &name, &dir.join(&name))?;
    }
    Ok(dir)
}

/// Returns the checkpoint of a run that was written last, or `None` if the run has none.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if a manifest is damaged, and [`Error::Storage`] if the storage cannot be used.
pub(crate) fn newest(storage: &dyn Storage, objects: &[Object]) -> Result<Option<WrittenAs>> {
    Ok(written(storage, objects)?.into_iter().max())
}

/// Returns all checkpoints of a run.
pub(crate) fn written(storage: &dyn Storage, objects: &[Object]) -> Result<Vec<WrittenAs>> {
    let names = objects.iter().filter_map(|object| {
        let name = object.path.strip_suffix(MANIFEST)?.strip_suffix('/')?;
        checkpoint::iteration(name).map(|_| name)
    });
    names.map(|name| Ok((manifest(storage, name)?.written(), name.into()))).collect()
}

fn small_files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| {
        path.is_file() && path.file_name().is_some_and(|name| is_small_file(&name.to_string_lossy()))
    })
}
