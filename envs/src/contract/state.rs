//! The format of saved states: little-endian fields one after the other.

use crate::{Element, Error, NpRandom, Result};

/// Writes the fields of a saved state.
#[derive(Debug, Default)]
pub(crate) struct StateWriter {
    bytes: Vec<u8>,
}

impl StateWriter {
    /// Starts a state with a name, which [`StateReader::new`] checks.
    pub(crate) fn new(tag: &str) -> Self {
        let mut writer = Self::default();
        writer.bytes(tag.as_bytes());
        writer
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    pub(crate) fn option(&mut self, value: Option<u64>) {
        self.u64(u64::from(value.is_some()));
        self.u64(value.unwrap_or(0));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn row<T: Element>(&mut self, row: &[T]) {
        self.bytes(bytemuck::cast_slice(row));
    }

    pub(crate) fn random(&mut self, random: &NpRandom) {
        self.bytes(&random.to_bytes());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads the fields of a saved state, in the order in which they were written.
#[derive(Debug)]
pub(crate) struct StateReader<'a> {
    rest: &'a [u8],
}

impl<'a> StateReader<'a> {
    /// Opens a state; an error if it was not written under `tag`.
    pub(crate) fn new(tag: &str, state: &'a [u8]) -> Result<Self> {
        let mut reader = Self { rest: state };
        match reader.bytes() {
            Ok(found) if found == tag.as_bytes() => Ok(reader),
            Ok(found) => Err(Error::state(format!(
                "it was saved by {:?}, but this is {tag:?}; load it into the same kind of environment",
                String::from_utf8_lossy(&found[..found.len().min(40)])
            ))),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(cut)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*head))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(cut)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*head))
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.u64()?))
    }

    pub(crate) fn option(&mut self) -> Result<Option<u64>> {
        let given = self.u64()? != 0;
        let value = self.u64()?;
        Ok(given.then_some(value))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u64()?;
        if len > self.rest.len() as u64 {
            return Err(cut());
        }
        let (head, rest) = self.rest.split_at(len as usize);
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn row<T: Element>(&mut self) -> Result<Vec<T>> {
        let bytes = self.bytes()?;
        if bytes.len() % size_of::<T>() != 0 {
            return Err(cut());
        }
        let mut row = vec![T::default(); bytes.len() / size_of::<T>()];
        bytemuck::cast_slice_mut(&mut row).copy_from_slice(bytes);
        Ok(row)
    }

    pub(crate) fn random(&mut self) -> Result<NpRandom> {
        let bytes = self.bytes()?.try_into().map_err(|_| Error::state("the random stream is damaged"))?;
        Ok(NpRandom::from_bytes(bytes))
    }

    /// Reads a number, such as that of copies, which must be `expected`; `of` names it in the error.
    pub(crate) fn count(&mut self, of: &str, expected: usize) -> Result<()> {
        match self.u64()? {
            found if found == expected as u64 => Ok(()),
            found => Err(Error::state(format!(
                "it holds {found} {of}, but there are {expected} here; load it with the same number"
            ))),
        }
    }

    /// Ends reading; an error if any bytes are left.
    pub(crate) fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Error::state(format!("{} bytes too many; it is damaged or of another version", self.rest.len())))
    }
}

fn cut() -> Error {
    Error::state("it ends too early; it is damaged or of another version")
}
