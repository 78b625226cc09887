//! Writes files atomically, and reads files with bounded memory.
//!
//! A directory may come from somebody else, so a symbolic link in it must not lead a write to another place. Temporary
//! files are created anew, and a file to append to is refused if it is a link.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::base::{Error, Result};

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
    let (file, unfinished) = beside(path, OpenOptions::new().write(true))?.into_parts();
    let mut writer = BufWriter::new(file);
    fill(&mut writer)?;
    let file = writer.into_inner().map_err(|error| Error::io("write", path)(error.into_error()))?;
    finish(&file).map_err(Error::io("write", path))?;
    unfinished.persist(path).map_err(|error| Error::io("write", path)(error.error))
}

/// Creates a hidden file in the directory of `path`, for what is to replace it, open as `how` says. Its name is a fresh one, so that programs that
/// write the same file do not meet, and no link that waits there is followed. It is removed if it is not renamed.
fn beside(path: &Path, how: &OpenOptions) -> Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    let mut options = tempfile::Builder::new();
    // As any new file, which `tempfile_in` would make private; and the error of the file system as it is.
    let create = |place: &Path| how.clone().create_new(true).open(place);
    options.prefix(&prefix).suffix(".tmp").make_in(parent(path), create).map_err(Error::io("write", path))
}

/// Writes a file so that it appears whole or not at all: `write` gets the path of an unfinished file, which is renamed to
/// `path` if `write` succeeds, and removed if it fails.
///
/// # Errors
/// Returns the error of `write`, and [`Error::Io`] if the file cannot be created or renamed.
pub fn write_whole<E: From<Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let unfinished = beside(path, OpenOptions::new().write(true))?.into_temp_path();
    write(&unfinished)?;
    Ok(unfinished.persist(path).map_err(|error| Error::io("write", path)(error.error))?)
}

/// Replaces the file at `path` by one with this content, atomically and durably.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be written.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<()> {
    refuse_too_large(content).map_err(Error::io("write", path))?;
    write_output(path, content)
}

/// Writes a file of any size for other programs, such as an exported policy, like [`replace_file`].
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be written.
pub fn write_output(path: &Path, content: &[u8]) -> Result<()> {
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

/// Path of an open directory, which may have been moved; `None` if it was removed.
pub(crate) fn place_of(dir: &File) -> Option<PathBuf> {
    // The link of a removed directory names a path that does not exist.
    fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok().filter(|place| place.is_dir())
}

/// Whether the file that was opened is still the one at `path`.
pub(crate) fn is_at(opened: &File, path: &Path) -> Result<bool> {
    is_same(opened, path, fs::symlink_metadata(path))
}

/// Whether the directory that was opened is still the one at `path`, which may be a link.
pub(crate) fn is_dir_at(opened: &File, path: &Path) -> Result<bool> {
    is_same(opened, path, fs::metadata(path))
}

fn is_same(opened: &File, path: &Path, found: io::Result<fs::Metadata>) -> Result<bool> {
    let own = opened.metadata().map_err(Error::io("read", path))?;
    match found {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        found => {
            let found = found.map_err(Error::io("read", path))?;
            Ok((found.dev(), found.ino()) == (own.dev(), own.ino()))
        }
    }
}

/// Writes the file at `path` again from the open `file`, whose content lives on after it was deleted. Returns the new file,
/// open for reading and appending; `None` if `file` is still the one at `path`. Another file that has its name by now gets
/// the ending `.other`.
pub(crate) fn write_again(file: &File, path: &Path) -> Result<Option<File>> {
    if is_at(file, path)? {
        return Ok(None);
    }
    if path.symlink_metadata().is_ok() {
        let mut other = path.as_os_str().to_owned();
        other.push(".other");
        fs::rename(path, other).map_err(Error::io("move", path))?;
    }
    // Who deletes the files one after the other may delete the new one, too, before it has its name.
    let mut again = copy_open(file, path);
    for _ in 0..TRIES {
        match again {
            Err(error) if error.is_of_missing_file() => again = copy_open(file, path),
            again => return again.map(Some),
        }
    }
    again.map(Some)
}

/// How often a file is written again that another program deletes meanwhile.
const TRIES: usize = 5;

/// Replaces the file at `path` by a copy of an open file, and returns the copy, open for reading and appending.
fn copy_open(file: &File, path: &Path) -> Result<File> {
    let mut copy = beside(path, OpenOptions::new().read(true).append(true))?;
    let mut block = vec![0; 1 << 16];
    let mut at = 0;
    loop {
        match file.read_at(&mut block, at).map_err(Error::io("read", path))? {
            0 => break,
            read => copy.write_all(&block[..read]).map_err(Error::io("write", path))?,
        }
        at = copy.as_file().metadata().map_err(Error::io("read", path))?.len();
    }
    copy.persist(path).map_err(|error| Error::io("write", path)(error.error))
}

/// Makes a new directory for what can no longer be written to `dir`, which was removed or moved: `<dir>.rescued`. If the
/// directory around `dir` is gone too, that one gets the ending, and `dir` has its old name in it. A number is appended until
/// the place `is_free`.
pub(crate) fn rescue_dir(dir: &Path, is_free: impl Fn(&Path) -> bool) -> Result<PathBuf> {
    let dir = &std::path::absolute(dir).map_err(Error::io("find the absolute path of", dir))?;
    let gone = dir.ancestors().take_while(|path| !path.exists()).last().unwrap_or(dir);
    let rest = dir.strip_prefix(gone).unwrap_or(Path::new(""));
    let name = gone.file_name().unwrap_or_default().to_string_lossy();
    let names =
        std::iter::once(format!("{name}.rescued")).chain((2..).map(|n| format!("{name}.rescued-{n}")));
    let mut places = names.map(|name| gone.with_file_name(name).join(rest));
    let place = places.find(|place| is_free(place)).unwrap_or_default();
    fs::create_dir_all(&place).map_err(Error::io("create", &place))?;
    // `join` with nothing leaves a slash at the end.
    Ok(place.components().collect())
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
    use std::os::unix::fs::{PermissionsExt, symlink};

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
    fn many_writers_of_one_file_do_not_meet_and_leave_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        std::thread::scope(|scope| {
            for writer in 0..6_u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        replace_file(path, &[writer; 10_000]).unwrap();
                        write_whole(path, |unfinished| {
                            fs::write(unfinished, [writer; 10_000]).map_err(Error::io("write", path))
                        })
                        .unwrap();
                    }
                });
            }
        });
        let content = fs::read(&path).unwrap();
        assert!(content.len() == 10_000 && content.iter().all(|byte| *byte == content[0]));
        let failed = write_whole(&path, |_| Err(Error::io("write", &path)(io::Error::other("full"))));
        assert!(failed.is_err() && fs::read(&path).unwrap() == content);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // As if it had been written by `fs::write`, not private as a temporary file.
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
    }

    #[test]
    fn a_deleted_file_is_written_again_from_its_handle_and_another_file_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        let mut file = append(&path).unwrap();
        file.write_all(b"one\n").unwrap();
        assert!(write_again(&file, &path).unwrap().is_none());
        fs::remove_file(&path).unwrap();
        file.write_all(b"two\n").unwrap();
        let mut again = write_again(&file, &path).unwrap().unwrap();
        again.write_all(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
        // An editor that saves by a rename puts another file in the place.
        fs::write(dir.path().join("edited"), "other").unwrap();
        fs::rename(dir.path().join("edited"), &path).unwrap();
        write_again(&again, &path).unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
        assert_eq!(fs::read_to_string(dir.path().join("result.json.other")).unwrap(), "other");
    }

    #[test]
    fn what_is_rescued_lies_beside_the_outermost_directory_that_is_gone_and_never_over_something_else() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let trial = home.join("sweep/trial");
        let rescue_dir = |dir: &Path| rescue_dir(dir, |place| !place.exists());
        assert_eq!(rescue_dir(&trial).unwrap(), home.join("sweep.rescued/trial"));
        assert_eq!(rescue_dir(&home.join("sweep")).unwrap(), home.join("sweep.rescued-2"));
        fs::create_dir(home.join("sweep")).unwrap();
        assert_eq!(rescue_dir(&trial).unwrap(), home.join("sweep/trial.rescued"));
        // A directory that is there, but is another one than before.
        fs::create_dir(&trial).unwrap();
        assert_eq!(rescue_dir(&trial).unwrap(), home.join("sweep/trial.rescued-2"));
        assert!(home.join("sweep/trial.rescued-2").is_dir());
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
