//! Reads what was added to a file of lines since the last look.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::lines::LONGEST;
use pavlov_tune::Error;

/// What a look at the file finds.
pub(super) enum Seen<'a> {
    /// The lines seen so far are no longer those of the file: it was replaced or cut. All lines follow again.
    Anew,
    /// A whole line, without its end.
    Line(&'a [u8]),
}

/// A place in a file that another process writes.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    /// Place behind the last whole line.
    at: u64,
    /// The last whole line with its end, by which a replaced file is told from one that grew.
    last: Vec<u8>,
    /// Time of the last change, if there is a file.
    pub(super) changed: Option<SystemTime>,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Tail {
        Tail { path, at: 0, last: Vec::new(), changed: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `see` with the whole lines that are new, and returns whether there were any. The beginning of a line waits for
    /// its end. A file that is not there is like an empty one.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is no regular file, or has a line that is too long.
    pub(super) fn read(&mut self, mut see: impl FnMut(Seen<'_>)) -> Result<bool, Error> {
        let metadata = match self.path.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let had_lines = self.at > 0;
                if had_lines {
                    self.forget();
                    see(Seen::Anew);
                }
                self.changed = None;
                return Ok(had_lines);
            }
            found => found.map_err(Error::io("read", &self.path))?,
        };
        self.changed = metadata.modified().ok();
        let refused = |reason: &str| Error::io("read", &self.path)(std::io::Error::other(reason.to_owned()));
        if !metadata.is_file() {
            return Err(refused("it is no regular file"));
        }
        let mut file = File::open(&self.path).map_err(Error::io("read", &self.path))?;
        let mut is_new = false;
        if self.is_replaced(&mut file, metadata.len())? {
            self.forget();
            see(Seen::Anew);
            is_new = true;
        }
        file.seek(SeekFrom::Start(self.at)).map_err(Error::io("read", &self.path))?;
        // A writer that is faster than this loop does not keep it here.
        let mut reader = BufReader::with_capacity(1 << 18, file.take(metadata.len().saturating_sub(self.at)));
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut reader).take(LONGEST).read_until(b'\n', &mut line);
            read.map_err(Error::io("read", &self.path))?;
            let Some(whole) = line.strip_suffix(b"\n") else {
                let is_long = line.len() as u64 == LONGEST;
                return if is_long { Err(self.too_long()) } else { Ok(is_new) };
            };
            see(Seen::Line(whole));
            is_new = true;
            self.at += line.len() as u64;
            std::mem::swap(&mut self.last, &mut line);
        }
    }

    fn too_long(&self) -> Error {
        Error::io("read", &self.path)(std::io::Error::other("a line has more than 64 MiB"))
    }

    fn forget(&mut self) {
        self.at = 0;
        self.last.clear();
    }

    /// Whether the last line seen does not stand at its place any more.
    fn is_replaced(&self, file: &mut File, length: u64) -> Result<bool, Error> {
        if length < self.at {
            return Ok(true);
        }
        let from = self.at - self.last.len() as u64;
        file.seek(SeekFrom::Start(from)).map_err(Error::io("read", &self.path))?;
        let mut there = vec![0; self.last.len()];
        match file.read_exact(&mut there) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(true),
            read => read.map(|()| there != self.last).map_err(Error::io("read", &self.path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn look(tail: &mut Tail) -> Vec<String> {
        let mut seen = Vec::new();
        let read = tail.read(|one| match one {
            Seen::Anew => seen.push("anew".into()),
            Seen::Line(line) => seen.push(String::from_utf8_lossy(line).into_owned()),
        });
        assert_eq!(read.expect("a file that can be read"), !seen.is_empty());
        seen
    }

    #[test]
    fn lines_are_seen_once_a_half_one_waits_and_a_cut_file_begins_anew() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lines");
        let mut tail = Tail::new(path.clone());
        assert_eq!(look(&mut tail), [""; 0], "there is no file yet");
        fs::write(&path, "a\nb\nhal").unwrap();
        assert_eq!(look(&mut tail), ["a", "b"]);
        assert_eq!(look(&mut tail), [""; 0]);
        fs::write(&path, "a\nb\nhalf\n").unwrap();
        assert_eq!(look(&mut tail), ["half"]);
        fs::write(&path, "a\n").unwrap();
        assert_eq!(look(&mut tail), ["anew", "a"]);
        // Longer than before, but with another line at the place of the last one.
        fs::write(&path, "c\nd\ne\n").unwrap();
        assert_eq!(look(&mut tail), ["anew", "c", "d", "e"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(look(&mut tail), ["anew"]);
    }

    #[test]
    fn what_is_no_regular_file_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let refused = Tail::new(home.path().into()).read(|_| ()).unwrap_err().to_string();
        assert!(refused.ends_with("it is no regular file"), "{refused}");
    }
}
