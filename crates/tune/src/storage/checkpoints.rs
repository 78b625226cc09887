//! Upload, download and deletion of checkpoints on object storage.
//!
//! The manifest is written after the files that it lists, and deleted before them. If the name is already used by another
//! checkpoint, the new files go into a subfolder named by the checksum of the new manifest
//! (`checkpoint_000010/1f2e3d4c/...`). Replacing the manifest then switches from one complete checkpoint to the other at
//! once, and the old files are deleted afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Object, Storage, join};
use crate::base::{Error, Result, read_file};
use crate::checkpoint::{self, MANIFEST, METADATA, Manifest, Metadata};

/// Maximum number of attempts to download a checkpoint that is replaced during the download.
const ATTEMPTS: usize = 3;

/// Uploads the checkpoint in `dir` and skips files that are already stored. If another checkpoint has this name,
/// `before_replacing` is called before its manifest is replaced.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if the checkpoint in `dir` is damaged, missing, or replaced during the upload, and
/// [`Error::Storage`] if the storage cannot be used.
pub(super) fn put(
    storage: &dyn Storage,
    path: &str,
    dir: &Path,
    before_replacing: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let manifest = checkpoint::verify(dir, None)?;
    let text = read_manifest(dir)?;
    let there = storage.list(path)?;
    let manifest_path = join(path, MANIFEST);
    let is_there = there.iter().any(|object| object.path == manifest_path);
    let replaced = if is_there { storage.get(&manifest_path)? } else { None };
    if replaced.as_ref() == Some(&text) {
        return tidy(storage, path, &folder(path, &text, &there), &manifest, &there);
    }
    let folder = match replaced {
        Some(_) => versioned(path, &text),
        None => path.to_string(),
    };
    for file in &manifest.files {
        let object = join(&folder, &file.path);
        let may_be = there.iter().any(|other| other.path == object && other.bytes == file.bytes);
        let is_there = may_be
            && storage
                .head(&object)?
                .is_some_and(|other| other.bytes == file.bytes && other.crc32c == Some(file.crc32c));
        if !is_there {
            storage.put_file(&object, &dir.join(&file.path), file.crc32c)?;
        }
    }
    if read_manifest(dir)? != text {
        return Err(Error::checkpoint(dir, "it was replaced while it was uploaded"));
    }
    match replaced {
        Some(_) => {
            before_replacing()?;
            storage.put(&manifest_path, text)?;
            tidy(storage, path, &folder, &manifest, &there)
        }
        None => {
            tidy(storage, path, &folder, &manifest, &there)?;
            storage.put(&manifest_path, text)
        }
    }
}

/// Downloads the checkpoint at `path` to the directory `dir`, completely or not at all.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if the checkpoint is damaged or missing, [`Error::Storage`] if the storage cannot be used,
/// and [`Error::Io`] if the local files cannot be written.
pub(crate) fn get(storage: &dyn Storage, path: &str, dir: &Path) -> Result<()> {
    let mut text = manifest_at(storage, path)?;
    for attempt in 1.. {
        let outcome = get_version(storage, path, dir, &text);
        if outcome.is_ok() || attempt == ATTEMPTS {
            return outcome;
        }
        let now = manifest_at(storage, path)?;
        if now == text {
            return outcome;
        }
        text = now;
    }
    Ok(())
}

fn get_version(storage: &dyn Storage, path: &str, dir: &Path, text: &[u8]) -> Result<()> {
    let url = join(storage.url(), path);
    let manifest = checkpoint::parse_manifest(Path::new(&url), &String::from_utf8_lossy(text))?;
    if dir.is_dir()
        && read_manifest(dir).is_ok_and(|own| own == text)
        && checkpoint::verify(dir, None).is_ok()
    {
        return Ok(());
    }
    let folder = folder(path, text, &storage.list(path)?);
    checkpoint::receive(dir, Path::new(&url), |unfinished| {
        for file in &manifest.files {
            let target = unfinished.join(checkpoint::relative(Path::new(&url), &file.path)?);
            let above = crate::base::files::parent(&target);
            fs::create_dir_all(above).map_err(Error::io("create", above))?;
            // A missing file is found by the verification afterwards. The manifest was readable, so an unreadable file means
            // that the checkpoint is damaged.
            storage.get_file(&join(&folder, &file.path), &target).map_err(|error| damaged(error, &url))?;
        }
        let target = unfinished.join(MANIFEST);
        fs::write(&target, text).map_err(Error::io("write", &target))
    })
}

/// Reads the manifest of the checkpoint at `path`.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if the manifest is damaged or missing, and [`Error::Storage`] if the storage cannot be
/// used.
pub(super) fn manifest(storage: &dyn Storage, path: &str) -> Result<Manifest> {
    let text = manifest_at(storage, path)?;
    checkpoint::parse_manifest(Path::new(&join(storage.url(), path)), &String::from_utf8_lossy(&text))
}

/// Reads the metadata that the driver stored in the checkpoint at `path`.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if the metadata is damaged or missing, and [`Error::Storage`] if the storage cannot be
/// used.
pub(crate) fn metadata(storage: &dyn Storage, path: &str) -> Result<Metadata> {
    let url = join(storage.url(), path);
    let text = manifest_at(storage, path)?;
    let folder = folder(path, &text, &storage.list(path)?);
    let refuse = |reason: String| Error::checkpoint(Path::new(&url), format!("{METADATA}: {reason}"));
    let metadata = storage.get(&join(&folder, METADATA))?.ok_or_else(|| refuse("it is missing".into()))?;
    serde_json::from_slice(&metadata).map_err(|error| refuse(error.to_string()))
}

/// Deletes the checkpoint at `path`, including what an interrupted deletion left of it.
pub(super) fn delete(storage: &dyn Storage, path: &str) -> Result<()> {
    let there = storage.list(path)?;
    let manifest = join(path, MANIFEST);
    let (first, rest): (Vec<_>, Vec<_>) = there.iter().partition(|object| object.path == manifest);
    first.into_iter().chain(rest).try_for_each(|object| storage.delete(&object.path))
}

fn manifest_at(storage: &dyn Storage, path: &str) -> Result<Vec<u8>> {
    let url = join(storage.url(), path);
    let reason = "there is no whole checkpoint: manifest.json is missing";
    let text = storage.get(&join(path, MANIFEST)).or_else(|error| {
        // If listing succeeds, the storage is reachable, so this object is what cannot be read.
        storage.list(path)?;
        Err(damaged(error, &url))
    })?;
    text.ok_or_else(|| Error::checkpoint(Path::new(&url), reason))
}

/// Turns a permanent storage error into a checkpoint error; other errors stay as they are.
fn damaged(error: Error, checkpoint: &str) -> Error {
    match error {
        Error::Storage { url, reason, transient: false, .. } => {
            Error::checkpoint(Path::new(checkpoint), format!("{url}: {reason}"))
        }
        error => error,
    }
}

fn read_manifest(dir: &Path) -> Result<Vec<u8>> {
    let path = dir.join(MANIFEST);
    read_file(&path).map_err(Error::io("read", &path))
}

fn versioned(path: &str, manifest: &[u8]) -> String {
    join(path, &format!("{:08x}", crc32c::crc32c(manifest)))
}

/// Folder with the files of the checkpoint that has this manifest.
fn folder(path: &str, manifest: &[u8], there: &[Object]) -> String {
    let versioned = versioned(path, manifest);
    let prefix = versioned.clone() + "/";
    if there.iter().any(|object| object.path.starts_with(&prefix)) { versioned } else { path.into() }
}

/// Deletes files that other checkpoints of this name left.
fn tidy(
    storage: &dyn Storage,
    path: &str,
    folder: &str,
    manifest: &Manifest,
    there: &[Object],
) -> Result<()> {
    let own: BTreeSet<String> = manifest.files.iter().map(|file| join(folder, &file.path)).collect();
    let manifest = join(path, MANIFEST);
    let strange = there.iter().filter(|object| object.path != manifest && !own.contains(&object.path));
    strange.into_iter().try_for_each(|object| storage.delete(&object.path))
}
