//! The memory of arrays: allocated here, or of somebody else and kept alive.

use std::any::Any;
use std::fmt;
use std::io;
use std::io::Read;
use std::ptr::NonNull;

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

/// Memory of an array.
pub(crate) enum Memory {
    /// Lines that were allocated here, of which so many bytes are used.
    Own(Vec<Line>, usize),
    /// Memory of somebody else.
    Other(Other),
}

/// Memory that belongs to somebody else, and the value that keeps it alive.
pub(crate) struct Other {
    start: NonNull<u8>,
    len: usize,
    _keeper: Box<dyn Any + Send + Sync>,
}

// SAFETY: the memory may be read from any thread, and written by the one that has it alone: see `Memory::kept`.
unsafe impl Send for Other {}
// SAFETY: as above.
unsafe impl Sync for Other {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}

impl Memory {
    pub(crate) fn zeros(bytes: usize) -> Self {
        Self::Own(vec![Line([0; LINE]); bytes.div_ceil(LINE)], bytes)
    }

    /// Looks at `len` bytes of somebody else's memory, which `keeper` keeps alive and in its place.
    ///
    /// # Safety
    /// The bytes are initialised and stay where they are while `keeper` lives. Nobody writes to them while this value
    /// is read, and nobody reads or writes them while this value is written through.
    pub(crate) unsafe fn kept(start: *mut u8, len: usize, keeper: Box<dyn Any + Send + Sync>) -> Self {
        // Whoever allocates nothing for no bytes may have a null pointer.
        Self::Other(Other { start: NonNull::new(start).unwrap_or(NonNull::dangling()), len, _keeper: keeper })
    }

    /// Copies parts, one after the other, which have `bytes` bytes together. The memory is not filled with zeros before.
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
        Self::Own(memory, bytes)
    }

    /// Reads so many bytes of `from`. Memory is written to as bytes arrive, so that a wrong number of bytes takes none.
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
        Ok(Self::Own(lines, bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(lines, bytes) => &bytemuck::cast_slice(lines)[..*bytes],
            // SAFETY: the promise that the caller of `kept` gave.
            Self::Other(other) => unsafe { std::slice::from_raw_parts(other.start.as_ptr(), other.len) },
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(lines, bytes) => &mut bytemuck::cast_slice_mut(lines)[..*bytes],
            // SAFETY: the promise that the caller of `kept` gave; `&mut self` keeps other slices away.
            Self::Other(other) => unsafe { std::slice::from_raw_parts_mut(other.start.as_ptr(), other.len) },
        }
    }
}
