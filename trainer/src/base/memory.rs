//! The memory of arrays: bytes that begin at a multiple of sixty-four.

use std::fmt;
use std::io;
use std::io::Read;

/// Sixty-four bytes that begin at a multiple of sixty-four: a line of the processor's cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; LINE]);

const LINE: usize = 64;

/// Number of lines that [`Memory::read_from`] reads in one call.
const AT_ONCE: usize = 4096;

// SAFETY: an array of bytes without padding, for which all bits are valid.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Line {}

/// The memory of an array.
pub(crate) struct Memory {
    lines: Vec<Line>,
    /// Number of bytes of the lines that the array uses.
    bytes: usize,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}

impl Memory {
    pub(crate) fn zeros(bytes: usize) -> Self {
        Self { lines: vec![Line([0; LINE]); bytes.div_ceil(LINE)], bytes }
    }

    /// Copies parts, one after the other, which have `bytes` bytes together. Each byte is written once.
    pub(crate) fn joined<'a>(bytes: usize, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let lines = bytes.div_ceil(LINE);
        let mut memory: Vec<Line> = Vec::with_capacity(lines);
        let mut at = 0;
        for part in parts {
            assert!(part.len() <= bytes - at, "parts of {bytes} bytes");
            // SAFETY: the assertion above: the part ends within the capacity, and new memory overlaps nothing.
            unsafe {
                memory.as_mut_ptr().cast::<u8>().add(at).copy_from_nonoverlapping(part.as_ptr(), part.len())
            };
            at += part.len();
        }
        assert_eq!(at, bytes, "bytes of all parts");
        // SAFETY: the parts have initialised the first `bytes` bytes, and this the others of the last line.
        unsafe {
            memory.as_mut_ptr().cast::<u8>().add(bytes).write_bytes(0, lines * LINE - bytes);
            memory.set_len(lines);
        }
        Self { lines: memory, bytes }
    }

    /// Reads the next `bytes` bytes of `from`. Memory is written to as bytes arrive, so that a number that is too large
    /// takes no memory.
    pub(crate) fn read_from(from: &mut impl Read, bytes: usize) -> io::Result<Self> {
        let mut lines: Vec<Line> = Vec::new();
        let all = bytes.div_ceil(LINE);
        lines.try_reserve_exact(all).map_err(|e| io::Error::new(io::ErrorKind::OutOfMemory, e))?;
        while lines.len() < all {
            let first = lines.len();
            lines.resize((first + AT_ONCE).min(all), Line([0; LINE]));
            let part: &mut [u8] = bytemuck::cast_slice_mut(&mut lines[first..]);
            let end = part.len().min(bytes - first * LINE);
            from.read_exact(&mut part[..end])?;
        }
        Ok(Self { lines, bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }
}
