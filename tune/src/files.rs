//! Writes files atomically, and reads files with bounded memory.
//!
//! A directory may come from somebody else, so a symbolic link in it must not lead a write to another place. Temporary
//! files are created anew, and a file to append to is refused if it is a link.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Maximum size in bytes (256 MiB) of a file of a run, sweep or checkpoint that is read as a whole. Real ones are far
/// smaller: a result with images in it has some megabytes.
pub const LARGEST_FILE: u64 = 1 << 28;

/// Opens a plain file for reading. Anything else is refused, since reading a pipe could block forever.
///
/// # Errors
/// Returns the errors of the file system, and [`ErrorKind::InvalidInput`] if `path` is not a plain file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path)?;
    refuse_unless_plain(&file)?;
    Ok(file)
}

/// Fails unless the open file is a plain file.
fn refuse_unless_plain(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is no plain file; put a plain file there"))
}

/// Reads a whole file that describes a run, sweep or checkpoint, like [`fs::read`]. A file that is too large is refused
/// before it fills the memory.
///
/// # Errors
/// Returns the errors of the file system, [`ErrorKind::FileTooLarge`] above [`LARGEST_FILE`], and
/// [`ErrorKind::InvalidInput`] if `path` is not a plain file.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut size = file.metadata()?.len();
    if size <= LARGEST_FILE {
        let mut content = Vec::with_capacity(size as usize);
        Read::by_ref(&mut file).take(LARGEST_FILE + 1).read_to_end(&mut content)?;
        if content.len() as u64 <= LARGEST_FILE {
            return Ok(content);
        }
        size = content.len() as u64;
    }
    let reason = format!(
        "it has {size} bytes or more, but pavlov reads {LARGEST_FILE} at most and writes no larger one; put a copy of the \
         right file in its place"
    );
    Err(io::Error::new(ErrorKind::FileTooLarge, reason))
}

/// Writes a file like [`fs::write`], but refuses content that [`read_file`] could not read again.
///
/// # Errors
/// Returns the errors of the file system, and [`ErrorKind::FileTooLarge`] above [`LARGEST_FILE`].
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    refuse_too_large(content)?;
    fs::write(path, content)
}

/// Refuses content that is too large to be read again.
pub(crate) fn refuse_too_large(content: &[u8]) -> io::Result<()> {
    let size = content.len() as u64;
    if size <= LARGEST_FILE {
        return Ok(());
    }
    let reason = format!(
        "{size} bytes at once are more than the {LARGEST_FILE} that can be read again; keep large values, such as \
         pictures, out of results and settings"
    );
    Err(io::Error::new(ErrorKind::FileTooLarge, reason))
}

/// Replaces the file at `path` by what `fill` writes, by way of a hidden temporary file and a rename. A power cut may
/// lose both versions, so use it only for files that can be regenerated.
pub(crate) fn replace(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    write_beside(path, fill, |_| Ok(()))
}

/// Replaces a file like [`replace`], but durably: a power cut leaves either the old file or the new one.
pub(crate) fn replace_durably(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    write_beside(path, fill, File::sync_all)?;
    sync_dir(parent(path)).map_err(Error::io("write", path))
}

/// Writes a hidden file in the same directory, calls `finish` on it, and renames it to `path`.
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

/// Replaces the file at `path` by one with this content, atomically and durably.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be written.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<()> {
    refuse_too_large(content).map_err(Error::io("write", path))?;
    replace_durably(path, |file| file.write_all(content).map_err(Error::io("write", path)))
}

/// Creates an empty file. An existing file or symbolic link of that name is removed first and not written to.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Opens a file for reading and appending; creates it if it does not exist.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be opened, is a symbolic link or is not a plain file.
pub(crate) fn append(path: &Path) -> Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let file = options.create(true).read(true).append(true).custom_flags(flags.bits() as i32).open(path);
    let file = file.and_then(|file| refuse_unless_plain(&file).map(|()| file));
    file.map_err(|error| {
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            Error::io("write", path)(io::Error::other("it is a symbolic link; put a plain file there"))
        } else {
            Error::io("write", path)(error)
        }
    })
}

/// Returns the directory that contains `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes renames and new files in `dir` durable, so that they survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Returns the directory for runs and experiments: `given`, else `PAVLOV_RESULTS_DIR`, else `pavlov_results` in the
/// home directory.
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
    fn what_could_not_be_read_again_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metadata.json");
        let message = write_file(&path, &vec![0; LARGEST_FILE as usize + 1]).unwrap_err().to_string();
        let expected = "268435457 bytes at once are more than the 268435456 that can be read again; keep large values, \
                        such as pictures, out of results and settings";
        assert_eq!(message, expected);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_plain_file_is_refused_and_a_pipe_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("result.json");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let rule = "it is no plain file; put a plain file there";
        for path in [&*pipe, dir.path()] {
            assert_eq!(open(path).unwrap_err().to_string(), rule);
            assert_eq!(read_file(path).unwrap_err().to_string(), rule);
        }
        assert!(append(&pipe).unwrap_err().to_string().ends_with(rule));
    }

    #[test]
    fn no_write_follows_a_symbolic_link_out_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        let path = dir.path().join("run.json");
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
