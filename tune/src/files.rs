//! Writing a file so that it is there whole or not at all.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::{Error, Result};

/// Replaces the file at `path` by what `fill` writes: temporary sibling, fsync, rename.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut BufWriter<&File>) -> Result<()>) -> Result<()> {
    let dir = parent(path);
    let temporary = tempfile::Builder::new()
        .prefix(".tmp-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(Error::io("write in", dir))?;
    let mut writer = BufWriter::new(temporary.as_file());
    fill(&mut writer)?;
    writer.flush().map_err(Error::io("write", path))?;
    drop(writer);
    temporary.as_file().sync_all().map_err(Error::io("write", path))?;
    temporary.persist(path).map_err(|error| Error::io("write", path)(error.error))?;
    sync_dir(dir).map_err(Error::io("write", dir))
}

/// The directory that `path` stands in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes renames and new names in `dir` survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
