//! Reads lines of text from another process.

use std::io::{self, BufRead, ErrorKind};
use std::iter;

use crate::files;

/// Returns the lines of `reader` until its end. A line that is too long or not UTF-8 is an error of the kind
/// [`InvalidData`](ErrorKind::InvalidData); lines after it must not be used.
pub(super) fn lines(mut reader: impl BufRead) -> impl Iterator<Item = io::Result<String>> {
    iter::from_fn(move || {
        let mut line = Vec::new();
        match files::read_line(&mut reader, &mut line) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

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
