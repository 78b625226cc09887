//! Reads the lines of a file from its end, so that the last lines of a long log are found as fast as those of a short
//! one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::base::files;

/// Minimum number of bytes that are read at once.
const BLOCK: u64 = 1 << 16;

/// Reads the lines of a file from the last to the first.
pub(super) struct LinesFromEnd {
    file: File,
    /// Bytes of the file from `start` on that were read but not returned yet.
    held: Vec<u8>,
    start: u64,
}

impl LinesFromEnd {
    /// Opens a plain file at its end.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = files::open(path)?;
        let start = file.seek(SeekFrom::End(0))?;
        Ok(LinesFromEnd { file, held: Vec::new(), start })
    }

    /// Returns the previous line with the offset at which it begins; `None` at the start of the file. The line includes
    /// its line feed, which only the last line of the file may lack.
    ///
    /// # Errors
    /// Returns the errors of the file system, and [`io::ErrorKind::InvalidData`] for a line that is too long.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        loop {
            let before = self.held.len().saturating_sub(1);
            if let Some(at) = self.held[..before].iter().rposition(|byte| *byte == b'\n') {
                return Ok(Some((self.start + at as u64 + 1, self.held.split_off(at + 1))));
            }
            if self.start == 0 {
                let line = std::mem::take(&mut self.held);
                return Ok((!line.is_empty()).then_some((0, line)));
            }
            pavlov_processes::refuse_too_long(self.held.len())?;
            // The block is at least as long as the held bytes, so that a long line is not copied once per block.
            let held = self.held.len() as u64;
            let start =
                self.start.saturating_sub(BLOCK.max(held).min(pavlov_processes::LONGEST_LINE + 1 - held));
            let mut block = vec![0; (self.start - start) as usize];
            self.file.seek(SeekFrom::Start(start))?;
            self.file.read_exact(&mut block)?;
            block.append(&mut self.held);
            self.held = block;
            self.start = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_from_the_last_to_the_first_with_their_places() {
        let long = "x".repeat(3 * BLOCK as usize);
        let lines = ["a\n", "\n", &format!("{long}\n"), "b\n", "torn"];
        let file = tempfile::NamedTempFile::new().unwrap();
        for count in 0..=lines.len() {
            std::fs::write(file.path(), lines[..count].concat()).unwrap();
            let mut from_end = LinesFromEnd::open(file.path()).unwrap();
            for number in (0..count).rev() {
                let start = lines[..number].concat().len() as u64;
                assert_eq!(from_end.next().unwrap(), Some((start, lines[number].into())));
            }
            assert_eq!(from_end.next().unwrap(), None);
        }
    }
}
