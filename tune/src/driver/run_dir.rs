//! Whether the run directory is still where it was.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The run directory as it was found first: known again wherever it is moved to.
#[derive(Debug, Default)]
pub(super) struct FoundRunDir(Option<(PathBuf, File)>);

impl FoundRunDir {
    /// Remembers which directory `dir` is, if there is one and it is not remembered yet.
    pub(super) fn note(&mut self, dir: &Path) {
        if self.0.as_ref().is_none_or(|(found, _)| found != dir) {
            self.0 = File::open(dir).ok().map(|handle| (dir.into(), handle));
        }
    }

    /// As [`note`](Self::note), and refuses a directory that is not the one that was found first.
    ///
    /// # Errors
    /// [`Error::RunDirectory`].
    pub(super) fn check(&mut self, dir: &Path) -> Result<()> {
        self.note(dir);
        let Some((_, handle)) = &self.0 else { return Ok(()) };
        let own = handle.metadata().map_err(Error::io("read", dir))?;
        let now = fs::metadata(dir);
        if now.is_ok_and(|now| (now.dev(), now.ino()) == (own.dev(), own.ino())) {
            return Ok(());
        }
        let place = fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        // A directory that was removed has a name that leads nowhere.
        let moved_to = place.ok().filter(|place| place.is_dir());
        Err(Error::RunDirectory { path: dir.into(), moved_to })
    }
}
