//! The journal on object storage, split into pieces because objects cannot be appended to.
//!
//! `journal/000000000000000.jsonl` is the piece that begins at byte 0. The last piece is replaced by a longer one until it
//! has [`PIECE`] bytes, then a new piece begins. This keeps the total upload from growing with the square of the journal's
//! length.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Storage, join};
use crate::base::{Error, Result, files};

/// Folder of the journal's pieces on the storage.
pub(crate) const SEGMENTS: &str = "journal";
const PIECE: u64 = 1 << 20;

/// A local journal, and how much of it has been uploaded.
#[derive(Debug)]
pub(crate) struct Segments {
    file: PathBuf,
    /// Byte offset at which the last piece begins.
    start: u64,
    /// Number of bytes uploaded.
    end: u64,
}

impl Segments {
    /// Creates the state of a journal that has not been uploaded at all.
    pub(crate) fn new(file: PathBuf) -> Self {
        Segments { file, start: 0, end: 0 }
    }

    /// Downloads all pieces of a journal into `copy`; returns `None` if there are no pieces.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if a piece is missing, [`Error::Storage`] if the storage cannot be used, and
    /// [`Error::Io`] if `copy` cannot be written.
    pub(crate) fn download(storage: &dyn Storage, file: PathBuf, copy: &mut File) -> Result<Option<Self>> {
        let pieces = storage.list(SEGMENTS)?;
        if pieces.is_empty() {
            return Ok(None);
        }
        let mut segments = Segments::new(file);
        for piece in pieces {
            let path = name(segments.end);
            let bytes = storage.get(&path)?.filter(|_| piece.path == path).ok_or_else(|| {
                let reason = format!("its journal is damaged: {path} is missing");
                Error::experiment(Path::new(storage.url()), reason)
            })?;
            copy.write_all(&bytes).map_err(Error::io("write", &segments.file))?;
            segments.start = segments.end;
            segments.end += bytes.len() as u64;
        }
        segments.turn();
        Ok(Some(segments))
    }

    /// Path of the local journal.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Number of bytes uploaded.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Uploads the journal up to byte `to`.
    pub(super) fn advance(&mut self, storage: &dyn Storage, to: u64) -> Result<()> {
        while self.end < to {
            let end = to.min(self.start + PIECE);
            let read = || -> std::io::Result<Vec<u8>> {
                let mut file = files::open(&self.file)?;
                file.seek(SeekFrom::Start(self.start))?;
                let mut bytes = vec![0; usize::try_from(end - self.start).map_err(std::io::Error::other)?];
                file.read_exact(&mut bytes)?;
                Ok(bytes)
            };
            storage.put(&name(self.start), read().map_err(Error::io("read", &self.file))?)?;
            self.end = end;
            self.turn();
        }
        Ok(())
    }

    fn turn(&mut self) {
        if self.end - self.start >= PIECE {
            self.start = self.end;
        }
    }
}

fn name(start: u64) -> String {
    join(SEGMENTS, &format!("{start:015}.jsonl"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::storage::open;

    #[test]
    fn a_journal_is_stored_in_full_pieces_and_one_rest_that_grows() {
        let home = tempfile::tempdir().unwrap();
        let storage = open(&format!("file://{}/bucket", home.path().display())).unwrap();
        let local = home.path().join("journal.jsonl");
        let all: Vec<u8> = (0..2 * PIECE + 10).map(|i| (i % 251) as u8).collect();
        fs::write(&local, &all).unwrap();
        let pieces = || -> Vec<(String, u64)> {
            let all = storage.list(SEGMENTS).unwrap().into_iter();
            all.map(|object| (object.path, object.bytes)).collect()
        };
        let mut segments = Segments::new(local.clone());
        for to in [7, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 10] {
            segments.advance(&*storage, to).unwrap();
            let starts = (0..to).step_by(usize::try_from(PIECE).unwrap());
            let expected: Vec<(String, u64)> =
                starts.map(|start| (name(start), PIECE.min(to - start))).collect();
            assert_eq!(pieces(), expected, "up to {to}");
            assert_eq!(segments.end(), to);
            // Whoever downloads it goes on in the same piece.
            let mut copy = tempfile::tempfile().unwrap();
            let mut same = Segments::download(&*storage, local.clone(), &mut copy).unwrap().unwrap();
            assert_eq!((same.start, same.end), (segments.start, segments.end), "up to {to}");
            same.advance(&*storage, to).unwrap();
            assert_eq!(pieces(), expected, "up to {to}");
        }
        let joined: Vec<u8> =
            pieces().iter().flat_map(|(path, _)| storage.get(path).unwrap().unwrap()).collect();
        assert_eq!(joined, all);
    }
}
