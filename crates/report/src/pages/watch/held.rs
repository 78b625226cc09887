//! Whether a process has locked a file, told without locking it.

use std::path::Path;

/// Whether a process holds a lock on the file or directory at `path`. `None` where the system does not say.
///
/// Locking it for a moment would make a run fail that begins in this moment.
#[cfg(target_os = "linux")]
pub(super) fn is_held(path: &Path) -> Option<bool> {
    use std::os::unix::fs::MetadataExt;
    let inode = path.metadata().ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // 12: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF
    let is_of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = words.get(5).and_then(|place| place.rsplit(':').next());
        words.get(1) == Some(&"FLOCK") && place == Some(&inode)
    };
    Some(locks.lines().any(is_of))
}

/// Whether a process holds a lock on the file or directory at `path`. `None`, because the system does not say.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_held(_: &Path) -> Option<bool> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    #[test]
    fn a_lock_is_seen_as_long_as_it_is_held() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(is_held(home.path()), Some(false));
        let handle = std::fs::File::open(home.path()).unwrap();
        flock(&handle, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(is_held(home.path()), Some(true));
        drop(handle);
        assert_eq!(is_held(home.path()), Some(false));
    }
}
