//! Writing a file so that it is there whole or not at all.
//!
//! A directory may come from someone else. So no symbolic link in it leads a write to another place: a temporary file is
//! made anew, and a file that is appended to is refused if it is a link.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Replaces the file at `path` by what `fill` writes: hidden sibling, rename. A power cut may lose both; for what can be
/// made again.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    write_beside(path, fill, |_| Ok(()))
}

/// Does the same as [`replace`]; a power cut leaves the old file or the new one.
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
        let mut writer = BufWriter::new(create_anew(&temporary).map_err(Error::io("write", &temporary))?);
        fill(&mut writer)?;
        let file = writer.into_inner().map_err(|error| Error::io("write", path)(error.into_error()))?;
        finish(&file).map_err(Error::io("write", path))?;
        fs::rename(&temporary, path).map_err(Error::io("write", path))
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Replaces the file at `path` by one of this content. It is there whole or not at all, also after a power cut.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be written.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<()> {
    replace_durably(path, |file| file.write_all(content).map_err(Error::io("write", path)))
}

/// Makes an empty file; whatever has the name, a symbolic link too, is removed first and not written to.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Opens a file to read it and to append to it, and makes it if it is not there.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be opened or is a symbolic link.
pub(crate) fn append(path: &Path) -> Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new().create(true).read(true).append(true).custom_flags(no_follow).open(path);
    file.map_err(|error| match error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        true => Error::io("write", path)(io::Error::other("it is a symbolic link; put a plain file there")),
        false => Error::io("write", path)(error),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_write_follows_a_symbolic_link_out_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (other, path) = (dir.path().join("other"), dir.path().join("run.json"));
        fs::write(&other, "mine").unwrap();
        symlink(&other, dir.path().join(".run.json.tmp")).unwrap();
        replace_file(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let link = dir.path().join("result.json");
        symlink(&other, &link).unwrap();
        let message = append(&link).unwrap_err().to_string();
        assert!(message.ends_with("result.json: it is a symbolic link; put a plain file there"), "{message}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    }
}
