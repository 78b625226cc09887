//! Reads lines of text with bounded memory.

use std::io::{self, BufRead, ErrorKind, Read};
use std::iter;

/// Maximum length in bytes (256 MiB) of a line in a file or in a message from another process.
pub const LONGEST_LINE: u64 = 1 << 28;

/// Returns the lines of `reader` until its end. A line that is too long or not UTF-8 is an error of the kind
/// [`InvalidData`](ErrorKind::InvalidData); lines after it must not be used.
pub fn lines(mut reader: impl BufRead) -> impl Iterator<Item = io::Result<String>> {
    iter::from_fn(move || {
        let mut line = Vec::new();
        match read_line(&mut reader, &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        Some(String::from_utf8(line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error)))
    })
}

/// Replaces `line` by the next line of `reader`, line feed included, and returns its length; 0 at the end.
///
/// # Errors
/// Returns the errors of `reader`, and [`ErrorKind::InvalidData`] for a line longer than [`LONGEST_LINE`].
pub fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let length = reader.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', line)?;
    refuse_too_long(length)?;
    Ok(length)
}

/// Checks the `length` in bytes of a line.
///
/// # Errors
/// Returns [`ErrorKind::InvalidData`] above [`LONGEST_LINE`].
pub fn refuse_too_long(length: usize) -> io::Result<()> {
    if length as u64 <= LONGEST_LINE {
        return Ok(());
    }
    let reason = format!("a line has {length} bytes or more, but pavlov reads {LONGEST_LINE} at most");
    Err(io::Error::new(ErrorKind::InvalidData, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
        let mut endless = lines(io::BufReader::new(b"{}\n".chain(io::repeat(b'a'))));
        assert_eq!(endless.next().unwrap().unwrap(), "{}");
        let error = endless.next().unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "a line has 268435457 bytes or more, but pavlov reads 268435456 at most"
        );
    }
}
