//! Long rows, stored as frames: equal frames share memory, in however many rows they occur.
//!
//! A row's `new_obs` is the observation of the row after it, and a stack of frames shares all frames but one with the
//! stack before it. The store finds equal frames by their bytes, and so also across fragments, copies and ends of
//! episodes.

use pavlov_learn::base::{Array, Error, Kind, Result, channels_first};
use std::collections::HashMap;

/// Number of bytes from which a row is stored as frames. For shorter rows, sharing costs as much memory as it saves.
const LONG: usize = 256;

/// Largest number of bytes of a chunk, the unit in which memory is allocated; only a longer frame has a larger chunk.
const CHUNK: usize = 1 << 18;

/// Marks a place in [`Rows::ids`] that refers to no frame yet.
const NONE: u32 = u32::MAX;

/// Distinct frames of equal length, with a count of uses for each.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: usize,
    chunks: Vec<Box<[u8]>>,
    uses: Vec<u32>,
    hashes: Vec<u64>,
    free: Vec<u32>,
    /// For each hash, the id of a frame with this hash.
    known: HashMap<u64, u32>,
}

impl Frames {
    fn new(bytes: usize) -> Self {
        Self {
            bytes,
            chunks: Vec::new(),
            uses: Vec::new(),
            hashes: Vec::new(),
            free: Vec::new(),
            known: HashMap::new(),
        }
    }

    fn per_chunk(&self) -> usize {
        (CHUNK / self.bytes).max(1)
    }

    fn place(&self, id: u32) -> (usize, std::ops::Range<usize>) {
        let chunk = id as usize / self.per_chunk();
        let at = id as usize % self.per_chunk() * self.bytes;
        (chunk, at..at + self.bytes)
    }

    fn get(&self, id: u32) -> &[u8] {
        let (chunk, range) = self.place(id);
        &self.chunks[chunk][range]
    }

    /// Returns the id of the frame with these bytes and counts one more use of it.
    fn put(&mut self, frame: &[u8]) -> u32 {
        let hash = hash(frame);
        if let Some(&id) = self.known.get(&hash)
            && self.get(id) == frame
        {
            self.uses[id as usize] += 1;
            return id;
        }
        let id = self.free.pop().unwrap_or(self.uses.len() as u32);
        let index = id as usize;
        if index == self.uses.len() {
            self.uses.push(0);
            self.hashes.push(0);
            if self.chunks.len() * self.per_chunk() == index {
                self.chunks.push(vec![0; self.per_chunk() * self.bytes].into());
            }
        }
        let (chunk, range) = self.place(id);
        self.chunks[chunk][range].copy_from_slice(frame);
        self.uses[index] = 1;
        self.hashes[index] = hash;
        self.known.insert(hash, id);
        id
    }

    /// Counts one use less of the frame `id`, and frees the frame after its last use.
    fn release(&mut self, id: u32) {
        if id == NONE {
            return;
        }
        let uses = &mut self.uses[id as usize];
        *uses -= 1;
        if *uses == 0 {
            let hash = self.hashes[id as usize];
            if self.known.get(&hash) == Some(&id) {
                self.known.remove(&hash);
            }
            self.free.push(id);
        }
    }

    /// Number of bytes that the stored frames take, with the tables of their hashes and uses.
    pub(super) fn held(&self) -> usize {
        let about = size_of::<u32>() * (self.uses.capacity() + self.free.capacity());
        let known = self.known.capacity() * size_of::<(u64, u32)>();
        self.chunks.iter().map(|chunk| chunk.len()).sum::<usize>()
            + about
            + known
            + 8 * self.hashes.capacity()
    }
}

/// Hashes the bytes of a frame. Different frames may have equal hashes, so such frames are compared byte by byte.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| mix(sum, u64::from(byte)))
}

/// The rows of a column, as ids of frames. A row has one frame per channel of an image or per member of a stack, or
/// is a single frame.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Shape of a row.
    shape: Vec<i64>,
    kind: Kind,
    /// Number of frames per row.
    planes: usize,
    /// Whether the elements of the frames alternate in the row, as the channels of a pixel do.
    interleaved: bool,
    /// Frame ids `[capacity, planes]`.
    ids: Vec<u32>,
    /// Index of this column's [`Frames`] among those of the buffer.
    store: usize,
    /// Scratch memory: one row, frame by frame.
    split: Vec<u8>,
}

impl Rows {
    /// Allocates ids for rows like those of `data`; `None` if these rows have fewer than [`LONG`] bytes.
    pub(super) fn new(data: &Array, capacity: usize, stores: &mut Vec<Frames>) -> Option<Self> {
        let shape = data.shape()[1..].to_vec();
        let kind = data.kind();
        let row_bytes = shape.iter().product::<i64>() as usize * kind.size();
        if row_bytes < LONG {
            return None;
        }
        let sizes: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        let (planes, interleaved) = match sizes.as_slice() {
            [stack, ..] if channels_first(&sizes) => (*stack, false),
            [_, _, channels] => (*channels, *channels > 1),
            _ => (1, false),
        };
        // Shorter frames cost more than they save.
        let (planes, interleaved) =
            if row_bytes / planes < LONG / 4 { (1, false) } else { (planes, interleaved) };
        let bytes = row_bytes / planes;
        let store = stores.iter().position(|frames| frames.bytes == bytes).unwrap_or_else(|| {
            stores.push(Frames::new(bytes));
            stores.len() - 1
        });
        let split = if interleaved { vec![0; row_bytes] } else { Vec::new() };
        Some(Self { shape, kind, planes, interleaved, ids: vec![NONE; capacity * planes], store, split })
    }

    /// Shape and kind of an array of `rows` rows.
    pub(super) fn of(&self, rows: usize) -> (Vec<i64>, Kind) {
        (std::iter::once(rows as i64).chain(self.shape.iter().copied()).collect(), self.kind)
    }

    /// Releases the frames of the row at place `slot` of the ring.
    pub(super) fn clear(&mut self, slot: usize, stores: &mut [Frames]) {
        for id in &mut self.ids[slot * self.planes..][..self.planes] {
            stores[self.store].release(std::mem::replace(id, NONE));
        }
    }

    /// Writes a row to place `slot` of the ring, in place of the row there.
    pub(super) fn write(&mut self, slot: usize, row: &[u8], stores: &mut [Frames]) {
        let frames = &mut stores[self.store];
        let planes = self.planes;
        let element = self.kind.size();
        let split = if self.interleaved {
            transpose(row, &mut self.split, (row.len() / planes / element, planes), element);
            &self.split
        } else {
            row
        };
        for (id, frame) in
            self.ids[slot * planes..][..planes].iter_mut().zip(split.chunks_exact(frames.bytes))
        {
            let new = frames.put(frame);
            frames.release(std::mem::replace(id, new));
        }
    }

    /// Copies the row at place `slot` of the ring to `to`, with the bytes that were written.
    pub(super) fn read(&self, slot: usize, stores: &[Frames], to: &mut [u8]) {
        let frames = &stores[self.store];
        let element = self.kind.size();
        let ids = &self.ids[slot * self.planes..][..self.planes];
        for (plane, &id) in ids.iter().enumerate() {
            let frame = frames.get(id);
            match (self.planes, element) {
                _ if !self.interleaved => to[plane * frames.bytes..][..frames.bytes].copy_from_slice(frame),
                (planes, 1) => {
                    to[plane..].iter_mut().step_by(planes).zip(frame).for_each(|(to, &byte)| *to = byte);
                }
                (planes, element) => {
                    let to = to.chunks_exact_mut(element).skip(plane).step_by(planes);
                    to.zip(frame.chunks_exact(element)).for_each(|(to, from)| to.copy_from_slice(from));
                }
            }
        }
    }

    /// Index of this column's [`Frames`] among those of the buffer.
    pub(super) fn store(&self) -> usize {
        self.store
    }

    /// Restores rows from the `ids` and the `frames` of a [`Saved`].
    pub(super) fn restore(&mut self, ids: &Array, frames: &Array, stores: &mut [Frames]) -> Result<()> {
        let bytes = stores[self.store].bytes;
        let saved = frames.bytes();
        let ids = ids.read::<i64>();
        let fits = ids.len() <= self.ids.len() && frames.shape()[1..] == [bytes as i64];
        for (to, &id) in self.ids.iter_mut().zip(ids).filter(|_| fits) {
            let frame = usize::try_from(id).ok().and_then(|id| saved.get(id * bytes..(id + 1) * bytes));
            let Some(frame) = frame else {
                return Err(Error::state("the replay buffer", format!("it has no frame {id}")));
            };
            *to = stores[self.store].put(frame);
        }
        if fits {
            Ok(())
        } else {
            Err(Error::state("the replay buffer", "its frames are of another size than its rows"))
        }
    }

    /// Number of bytes that the ids and the scratch memory take, without the frames.
    pub(super) fn held(&self) -> usize {
        self.ids.capacity() * size_of::<u32>() + self.split.capacity()
    }
}

/// Transposes a matrix `[rows, columns]` with elements of `element` bytes to `[columns, rows]`.
fn transpose(from: &[u8], to: &mut [u8], (rows, columns): (usize, usize), element: usize) {
    for (column, to) in to.chunks_exact_mut(rows * element).enumerate() {
        match element {
            1 => to.iter_mut().zip(from[column..].iter().step_by(columns)).for_each(|(to, &byte)| *to = byte),
            _ => {
                let from = from.chunks_exact(element).skip(column).step_by(columns);
                to.chunks_exact_mut(element).zip(from).for_each(|(to, from)| to.copy_from_slice(from));
            }
        }
    }
}

/// Saved rows: the frames in use, numbered by their first use, and the frame numbers of each row.
pub(crate) struct Saved {
    /// Bytes of the frames, `[frames, bytes]`.
    pub(super) frames: Array,
    /// Frame numbers `[rows, planes]` of each column.
    pub(super) ids: Vec<Array>,
}

impl Saved {
    /// Saves the first `len` rows of all columns whose frames are in one store.
    pub(super) fn new(frames: &Frames, columns: &[&Rows], len: usize) -> Self {
        let mut numbers = HashMap::new();
        let mut bytes = Vec::new();
        let ids = columns.iter().map(|rows| {
            let ids: Vec<i64> = rows.ids[..len * rows.planes]
                .iter()
                .map(|&id| {
                    let next = numbers.len() as i64;
                    *numbers.entry(id).or_insert_with(|| {
                        bytes.extend_from_slice(frames.get(id));
                        next
                    })
                })
                .collect();
            Array::from_vec(ids, &[len as i64, rows.planes as i64])
        });
        let ids = ids.collect();
        let shape = [numbers.len() as i64, frames.bytes as i64];
        Self { frames: Array::from_bytes(Kind::U8, &shape, &bytes), ids }
    }
}
