//! The bytes of a saved state: a line that says of what, then parts with their lengths.

use crate::fault::{Fault, Result};

/// Writes a state.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// `of` names what is saved; a state of something else is refused by it.
    pub(crate) fn new(of: &str) -> Self {
        let mut writer = Self(Vec::new());
        writer.part(of.as_bytes());
        writer
    }

    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a state.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Refuses a state of anything but `of`.
    pub(crate) fn new(of: &str, state: &'a [u8]) -> Result<Self> {
        let mut reader = Self(state);
        let found = reader.part()?;
        if found == of.as_bytes() {
            return Ok(reader);
        }
        let found = std::str::from_utf8(found).ok().filter(|text| text.len() < 200);
        let found = found.map_or_else(|| "no state of this package".to_owned(), |of| format!("of {of}"));
        Err(Fault::state(format!("the saved state is {found}, but this is {of}")))
    }

    pub(crate) fn part(&mut self) -> Result<&'a [u8]> {
        let cut = || Fault::state("the saved state is damaged: it ends too early");
        let (len, rest) = self.0.split_first_chunk::<8>().ok_or_else(cut)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| cut())?;
        let (part, rest) = rest.split_at_checked(len).ok_or_else(cut)?;
        self.0 = rest;
        Ok(part)
    }

    /// A part of a known length.
    pub(crate) fn part_of(&mut self, len: usize) -> Result<&'a [u8]> {
        let part = self.part()?;
        if part.len() == len {
            return Ok(part);
        }
        Err(Fault::state(format!(
            "the saved state is damaged: a part has {} bytes instead of {len}",
            part.len()
        )))
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            rest => Err(Fault::state(format!("the saved state is damaged: {rest} bytes are left over"))),
        }
    }
}
