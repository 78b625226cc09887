//! Writing a file so that it is there whole or not at all.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Replaces the file at `path` by what `fill` writes: hidden sibling, rename. A power cut may lose both; for what can be
/// made again.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    write_beside(path, fill, |_| Ok(()))
}

/// As [`replace`]; a power cut leaves the old file or the new one.
pub(crate) fn replace_durably(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    write_beside(path, fill, File::sync_all)?;
    sync_dir(parent(path)).map_err(Error::io("write", path))
}

fn write_beside(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
    finish: impl FnOnce(&File) -> io::Result<()>,
) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.tmp"));
    let write = || {
        let mut writer = BufWriter::new(File::create(&temporary).map_err(Error::io("write", &temporary))?);
        fill(&mut writer)?;
        let file = writer.into_inner().map_err(|error| Error::io("write", path)(error.into_error()))?;
        finish(&file).map_err(Error::io("write", path))?;
        fs::rename(&temporary, path).map_err(Error::io("write", path))
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
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

/// Where run directories and experiments go.
pub(crate) fn results_root(given: Option<&Path>) -> PathBuf {
    if let Some(dir) = given {
        return dir.to_path_buf();
    }
    if let Some(dir) = env::var_os("PAVLOV_RESULTS_DIR").filter(|dir| !dir.is_empty()) {
        return dir.into();
    }
    env::home_dir().as_deref().unwrap_or(Path::new(".")).join("pavlov_results")
}
