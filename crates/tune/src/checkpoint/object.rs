//! A checkpoint as one block of bytes: length of the manifest as little-endian `u64`, the manifest, then the content of
//! each file in the manifest's order.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::{MANIFEST, parse_manifest, relative, verify};
use crate::base::{Error, Result, read_file};

/// Packs the checkpoint in `dir` into bytes.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if `dir` is not a checkpoint or a damaged one, and [`Error::Io`] if it cannot be read.
pub(crate) fn pack(dir: &Path) -> Result<Vec<u8>> {
    let manifest = verify(dir, None)?;
    let path = dir.join(MANIFEST);
    let text = read_file(&path).map_err(Error::io("read", &path))?;
    let mut object = (text.len() as u64).to_le_bytes().to_vec();
    object.extend_from_slice(&text);
    for file in &manifest.files {
        let path = dir.join(&file.path);
        File::open(&path)
            .and_then(|mut file| file.read_to_end(&mut object))
            .map_err(Error::io("read", &path))?;
    }
    Ok(object)
}

/// Unpacks a checkpoint from bytes into the existing, empty directory `dir`, and verifies it.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if the bytes are truncated, damaged, or not a checkpoint, and [`Error::Io`] if the
/// files cannot be written.
pub(crate) fn unpack(object: &[u8], dir: &Path) -> Result<()> {
    let origin = Path::new("<object>");
    let cut = || Error::checkpoint(origin, "the bytes are not a whole checkpoint");
    let (length, rest) = object.split_first_chunk::<8>().ok_or_else(cut)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
    let (text, mut rest) = rest.split_at_checked(length).ok_or_else(cut)?;
    let manifest = parse_manifest(origin, std::str::from_utf8(text).map_err(|_| cut())?)?;
    for file in &manifest.files {
        let length = usize::try_from(file.bytes).map_err(|_| cut())?;
        let (content, tail) = rest.split_at_checked(length).ok_or_else(cut)?;
        rest = tail;
        let path = dir.join(relative(origin, &file.path)?);
        let folder = crate::base::files::parent(&path);
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        fs::write(&path, content).map_err(Error::io("write", &path))?;
    }
    if !rest.is_empty() {
        return Err(cut());
    }
    let path = dir.join(MANIFEST);
    fs::write(&path, text).map_err(Error::io("write", &path))?;
    verify(dir, None).map(drop)
}
