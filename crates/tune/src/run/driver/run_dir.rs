//! Detects that a run directory was moved or removed during the run.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::base::{Error, Result, files};

/// Handle on the run directory as it was first seen; it still identifies the directory after a move.
#[derive(Debug, Default)]
pub(super) struct FoundRunDir(Option<(PathBuf, File)>);

impl FoundRunDir {
    /// Remembers which directory is at `dir`, if there is one and it is not remembered yet.
    pub(super) fn note(&mut self, dir: &Path) {
        if self.0.as_ref().is_none_or(|(found, _)| found != dir) {
            self.0 = File::open(dir).ok().map(|handle| (dir.into(), handle));
        }
    }

    /// Fails if the directory at `dir` is not the one that was first seen there; remembers it like [`note`](Self::note)
    /// if none was seen yet.
    ///
    /// # Errors
    /// Returns [`Error::RunDirectory`] if the directory was moved or removed, and [`Error::Io`] if its handle cannot be
    /// read.
    pub(super) fn check(&mut self, dir: &Path) -> Result<()> {
        self.note(dir);
        let Some((_, handle)) = &self.0 else { return Ok(()) };
        if files::is_dir_at(handle, dir)? {
            return Ok(());
        }
        let moved_to = files::place_of(handle);
        Err(Error::RunDirectory { path: dir.into(), moved_to, rescued: None })
    }
}
