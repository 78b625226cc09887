//! Temporary folders that are removed when their owner drops them or, after a kill, when a similar folder is made next.
//!
//! The owner keeps its folder locked, and the system releases the lock when the owner's process ends.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tempfile::TempDir;

/// A folder that is removed when this value is dropped.
#[derive(Debug)]
pub struct HeldFolder {
    dir: TempDir,
    /// Lock on the folder; declared last, so that it is released after the folder is removed.
    _lock: File,
}

impl HeldFolder {
    /// Makes a folder in `home` with a name that begins with `prefix`; only this user can enter it. Similar folders of
    /// this user's killed processes are removed first.
    ///
    /// # Errors
    /// Returns the errors of the file system.
    pub fn new(home: &Path, prefix: &str) -> io::Result<Self> {
        remove_abandoned(home, prefix);
        let (dir, lock) = locked_dir(home, prefix, 0o700)?;
        Ok(Self { dir, _lock: lock })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes the folders that killed processes of this user left in `home`, as far as possible.
fn remove_abandoned(home: &Path, prefix: &str) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().to_string_lossy().starts_with(prefix);
        let is_own = || entry.metadata().is_ok_and(|attributes| attributes.uid() == own);
        if !is_named_so || !is_own() {
            continue;
        }
        let Some(_lock) = lock_abandoned(&entry.path()) else { continue };
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(
                "cannot remove {}, left by a process that was killed: {error}",
                entry.path().display()
            );
        }
    }
}

/// Locks an abandoned folder, i.e. one whose process has ended; `None` if it is still locked or is not a folder.
///
/// Keep the lock until the folder is removed. A folder that was just made may not be locked yet and may be taken; its
/// owner then makes another one.
pub fn lock_abandoned(dir: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(dir, flags, Mode::empty()).ok()?;
    flock(&handle, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(handle)
}

/// Makes a new folder in `home` with a name that begins with `prefix`, and returns it with its lock.
///
/// # Errors
/// Returns the errors of the file system.
pub fn locked_dir(home: &Path, prefix: &str, mode: u32) -> io::Result<(TempDir, File)> {
    loop {
        let mut builder = tempfile::Builder::new();
        let dir = builder.prefix(prefix).permissions(Permissions::from_mode(mode)).tempdir_in(home)?;
        // Before the new folder is locked, another process may take it for an abandoned one and remove it; then a new
        // one is made. On file systems without locks, `lock_abandoned` takes no folder.
        match File::open(dir.path()) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            handle => {
                let handle = handle?;
                let _ = flock(&handle, FlockOperation::LockExclusive);
                if dir.path().exists() {
                    return Ok((dir, handle));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_processes_are_removed_and_nothing_else_is() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::create_dir(path("cache-left")).unwrap();
        fs::write(path("cache-left").join("state"), "old").unwrap();
        fs::create_dir(path("other")).unwrap();
        std::os::unix::fs::symlink(path("other"), path("cache-link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("cache-pipe"), 0o600.into()).unwrap();
        let held = HeldFolder::new(home.path(), "cache-").unwrap();
        let second = HeldFolder::new(home.path(), "cache-").unwrap();
        assert!(!path("cache-left").exists());
        assert!(held.path().is_dir() && path("other").is_dir());
        assert!(path("cache-link").is_symlink() && path("cache-pipe").exists());
        assert_eq!(held.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let places = [held.path().to_path_buf(), second.path().to_path_buf()];
        drop((held, second));
        assert!(places.iter().all(|place| !place.exists()));
    }
}
