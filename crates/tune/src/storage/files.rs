//! The small files of a directory: all but checkpoints, the journal, and hidden files. They are uploaded and downloaded
//! whole.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;

use super::{DRIVER, Object, SEGMENTS, Storage};
use crate::base::{Error, Result, files};
use crate::checkpoint;

/// Length and modification time of each uploaded file, by path.
#[derive(Debug, Default)]
pub(super) struct Files {
    uploaded: HashMap<PathBuf, (u64, SystemTime)>,
}

impl Files {
    /// Uploads the changed files at `at`, a file or a folder below `root`. Skips checkpoints, hidden files and `left_out`. A
    /// file that cannot be read is skipped with a warning.
    pub(super) fn upload(
        &mut self,
        storage: &dyn Storage,
        root: &Path,
        at: &Path,
        left_out: Option<&Path>,
    ) -> Result<()> {
        for path in found(at, left_out) {
            let Some(name) = path.strip_prefix(root).ok().and_then(|name| name.to_str()) else { continue };
            let Ok(attributes) = fs::metadata(&path) else { continue };
            let now = (attributes.len(), attributes.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            if self.uploaded.get(&path) == Some(&now) {
                continue;
            }
            match snapshot(&path, now.0) {
                Ok((copy, crc)) => {
                    storage.put_file(name, copy.path(), crc)?;
                    self.uploaded.insert(path, now);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!("not uploaded: {}", Error::io("read", &path)(error)),
            }
        }
        Ok(())
    }
}

fn found(at: &Path, left_out: Option<&Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![at.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let Ok(attributes) = fs::symlink_metadata(&path) else { continue };
        if attributes.is_file() {
            found.push(path);
            continue;
        }
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let path = entry.path();
            let name = name.to_string_lossy();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_checkpoint = is_dir && checkpoint::is_named_so(&name);
            if !is_checkpoint && !name.starts_with('.') && left_out != Some(&path) {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Copies the first `length` bytes of a file, which may grow meanwhile, and returns the copy and its CRC-32C.
fn snapshot(path: &Path, length: u64) -> io::Result<(NamedTempFile, u32)> {
    let mut source = files::open(path)?.take(length);
    let mut copy = NamedTempFile::new()?;
    let mut buffer = vec![0; 1 << 16];
    let mut crc = 0;
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok((copy, crc)),
            n => {
                crc = crc32c::crc32c_append(crc, &buffer[..n]);
                copy.write_all(&buffer[..n])?;
            }
        }
    }
}

/// Whether the path of an object is that of a small file. A path that leads out of the directory is not.
pub(super) fn is_small_file(path: &str) -> bool {
    let is_small = |part: Component<'_>| {
        let Component::Normal(name) = part else { return false };
        let name = name.to_string_lossy();
        !name.starts_with('.') && !checkpoint::is_named_so(&name)
    };
    let path = Path::new(path);
    path != Path::new(DRIVER) && !path.starts_with(SEGMENTS) && path.components().all(is_small)
}

/// Downloads the small files among `objects` to `dir`.
///
/// # Errors
/// Returns [`Error::Storage`] if the storage cannot be used, and [`Error::Io`] if a file cannot be written.
pub(crate) fn download_small_files(storage: &dyn Storage, objects: &[Object], dir: &Path) -> Result<()> {
    for object in objects.iter().filter(|object| is_small_file(&object.path)) {
        let target = dir.join(&object.path);
        let above = files::parent(&target);
        fs::create_dir_all(above).map_err(Error::io("create", above))?;
        storage.get_file(&object.path, &target)?;
    }
    Ok(())
}
