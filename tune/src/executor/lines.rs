//! Lines that another process sends.

use std::io::{self, BufRead, ErrorKind, Read};
use std::iter;

/// In bytes. A result with a picture in it is some megabytes.
const LONGEST_LINE: u64 = 1 << 26;

/// The lines of `reader` until its end. One that is too long, or no text, is an error of the kind
/// [`InvalidData`](ErrorKind::InvalidData): what follows it means nothing.
pub(super) fn lines(mut reader: impl BufRead) -> impl Iterator<Item = io::Result<String>> {
    let refuse = |reason: String| Some(Err(io::Error::new(ErrorKind::InvalidData, reason)));
    iter::from_fn(move || {
        let mut line = Vec::new();
        match Read::by_ref(&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() as u64 == LONGEST_LINE {
            return refuse(format!("a line of more than {LONGEST_LINE} bytes"));
        }
        String::from_utf8(line).map(Ok).map_or_else(|error| refuse(error.to_string()), Some)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
        let mut endless = lines(io::BufReader::new(b"{}\n".chain(io::repeat(b'a'))));
        assert_eq!(endless.next().unwrap().unwrap(), "{}");
        let error = endless.next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "a line of more than 67108864 bytes");
    }
}
