//! The memory of arrays: bytes that begin at a multiple of sixty-four.

use std::cell::RefCell;
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

/// Number of sizes of memory that is used again: 1, 2, 4 lines and so on, up to 16 KiB.
const SIZES: usize = 9;

/// Largest number of pieces of memory of one size that a thread keeps.
const KEPT: usize = 16;

thread_local! {
    /// Memory of dropped arrays, by size. The system's allocator takes long for memory that begins at such addresses, and a
    /// step of an off-policy algorithm makes dozens of small arrays. DQN made 4 to 8 % more updates per second with it
    /// (`benches/README.md`).
    static SPARE: RefCell<[Vec<Vec<Line>>; SIZES]> = const { RefCell::new([const { Vec::new() }; SIZES]) };
}

/// The index in `SPARE` of memory for this many lines, which has `1 << index` lines; `None` if it is not kept.
fn size_of_spare(lines: usize) -> Option<usize> {
    let size = lines.next_power_of_two().trailing_zeros() as usize;
    (lines > 0 && size < SIZES).then_some(size)
}

/// Returns empty memory with room for this many lines.
fn take(lines: usize) -> Vec<Line> {
    let Some(size) = size_of_spare(lines) else { return Vec::with_capacity(lines) };
    let spare = SPARE.try_with(|spare| spare.borrow_mut()[size].pop());
    spare.ok().flatten().unwrap_or_else(|| Vec::with_capacity(1 << size))
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        let Some(size) = size_of_spare(lines.capacity()).filter(|size| 1 << size == lines.capacity()) else {
            return;
        };
        lines.clear();
        // The thread may be at its end, where nothing is kept any more.
        let _ = SPARE.try_with(|spare| {
            let spare = &mut spare.borrow_mut()[size];
            if spare.len() < KEPT {
                spare.push(lines);
            }
        });
    }
}

impl Memory {
    pub(crate) fn zeros(bytes: usize) -> Self {
        let count = bytes.div_ceil(LINE);
        if size_of_spare(count).is_none() {
            return Self { lines: vec![Line([0; LINE]); count], bytes };
        }
        let mut lines = take(count);
        lines.resize(count, Line([0; LINE]));
        Self { lines, bytes }
    }

    /// Copies parts, one after the other, which have `bytes` bytes together. Each byte is written once.
    pub(crate) fn joined<'a>(bytes: usize, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let lines = bytes.div_ceil(LINE);
        let mut memory = take(lines);
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

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_dropped_array_is_used_again_and_has_none_of_its_numbers() {
        let mut first = Memory::zeros(100);
        first.bytes_mut().fill(7);
        let place = first.bytes().as_ptr();
        drop(first);
        let second = Memory::zeros(90);
        assert_eq!(second.bytes().as_ptr(), place);
        assert_eq!(second.bytes(), [0; 90]);
        drop(second);
        let third = Memory::joined(70, [&[1; 30][..], &[2; 40][..]]);
        assert_eq!(third.bytes().as_ptr(), place);
        assert_eq!(third.bytes(), [[1; 30].as_slice(), [2; 40].as_slice()].concat());
        // What lies behind the bytes, to the end of the line, is zero too.
        assert!(bytemuck::cast_slice::<_, u8>(&third.lines)[70..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_thread_keeps_little_memory_and_none_of_large_arrays() {
        let many: Vec<Memory> = (0..100).map(|_| Memory::zeros(64)).collect();
        drop(many);
        drop(Memory::zeros(64 << SIZES));
        SPARE.with(|spare| {
            let spare = spare.borrow();
            assert!(spare.iter().all(|kept| kept.len() <= KEPT));
            assert_eq!(spare[0].len(), KEPT);
            assert!(spare.iter().flatten().all(|lines| lines.capacity() < 1 << SIZES));
        });
    }
}
