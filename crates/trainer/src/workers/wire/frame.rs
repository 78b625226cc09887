//! Frames on the wire: reading and writing a header, JSON and arrays.

use pavlov_learn::base::{Array, Error, Kind, MAX_AXES, Result, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io;
use std::io::{ErrorKind, Read, Write};

/// Version of frames and messages. Both ends run the same executable, so another version is an error.
pub(crate) const VERSION: u16 = 4;

/// The first four bytes of every frame.
const MARK: [u8; 4] = *b"PVLW";
/// Number of bytes of the header.
const HEADER: usize = 40;
/// The bytes of the header in which the checksum is.
const CHECKSUM: std::ops::Range<usize> = 32..36;

/// Largest number of bytes of the JSON in a frame, the same as for a line from the process of a trial.
const MAX_JSON: u64 = 256 << 20;
/// Largest number of bytes of the arrays in a frame, more than any batch has.
const MAX_ARRAYS: u64 = 64 << 30;
/// Largest number of bytes of memory that is reserved before data arrive.
const AT_ONCE: u64 = 64 << 20;

/// The kind of request or reply that a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Op {
    /// To a worker: its number and the settings that it is made from.
    Start = 1,
    SetWeights,
    Sample,
    Evaluate,
    GetState,
    SetState,
    FlushFilters,
    SetFilters,
    SetTask,
    /// To a process: asks whether it lives. The process answers at once, even while its worker is busy.
    Probe,
    /// To a learner: a step that it takes together with the trainer.
    Follow,
    /// From a worker: it carried out a request that has no result; also the reply to `Start` and to `Probe`.
    Done = 100,
    Sampled,
    Evaluated,
    State,
    Filters,
    Listens,
    Fault,
}

impl Op {
    const ALL: [Self; 18] = [
        Self::Start,
        Self::SetWeights,
        Self::Sample,
        Self::Evaluate,
        Self::GetState,
        Self::SetState,
        Self::FlushFilters,
        Self::SetFilters,
        Self::SetTask,
        Self::Probe,
        Self::Follow,
        Self::Done,
        Self::Sampled,
        Self::Evaluated,
        Self::State,
        Self::Filters,
        Self::Listens,
        Self::Fault,
    ];
}

/// The content of a frame: named JSON values, the head, and a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message<'a> {
    head: Map<String, Value>,
    state: Cow<'a, State>,
}

impl<'a> Message<'a> {
    /// Makes a message with an empty head that carries `state`.
    pub(crate) fn of(state: Cow<'a, State>) -> Self {
        Self { head: Map::new(), state }
    }

    /// Adds a value to the head under `key`.
    pub(crate) fn with(mut self, key: &str, value: &impl Serialize) -> Result<Self> {
        let value = serde_json::to_value(value).map_err(|e| Error::state(key, e.to_string()))?;
        self.head.insert(key.to_owned(), value);
        Ok(self)
    }

    /// Reads the value of `key` in the head.
    pub(crate) fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T> {
        let value = self.head.get(key).ok_or_else(|| damaged(format!("it says no `{key}`")))?;
        T::deserialize(value).map_err(|e| damaged(format!("its `{key}` cannot be read: {e}")))
    }

    /// The state that the message carries, to change.
    pub(crate) fn state_mut(&mut self) -> &mut State {
        self.state.to_mut()
    }

    /// Returns the state that the message carries.
    pub(crate) fn into_state(self) -> State {
        self.state.into_owned()
    }
}

/// A frame that was read.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) op: Op,
    /// Number of the request that the frame carries or answers.
    pub(crate) request: u64,
    pub(crate) message: Message<'static>,
}

/// The JSON of a frame to write; `arrays` has name, type and shape of each array.
#[derive(Serialize)]
struct Describing<'a> {
    head: &'a Map<String, Value>,
    values: &'a Map<String, Value>,
    arrays: Vec<(&'a str, &'static str, &'a [i64])>,
}

/// The JSON of a frame that was read; `arrays` has name, type and shape of each array.
#[derive(Deserialize)]
struct Described {
    head: Map<String, Value>,
    values: Map<String, Value>,
    arrays: Vec<(String, String, Vec<i64>)>,
}

/// Writes a frame. Arrays are written from their own memory, without a copy.
///
/// # Errors
/// Fails if the frame is too long, or if `to` fails.
pub(crate) fn write(to: &mut impl Write, op: Op, request: u64, message: &Message<'_>) -> Result<()> {
    let (values, arrays) = message.state.parts();
    let described = Describing {
        head: &message.head,
        values,
        arrays: arrays
            .iter()
            .map(|(name, array)| (name.as_str(), dtype(array.kind()), array.shape()))
            .collect(),
    };
    let json = serde_json::to_vec(&described).map_err(|e| Error::state("a message", e.to_string()))?;
    let sizes = [json.len() as u64, arrays.iter().map(|(_, array)| array.bytes().len() as u64).sum()];
    check_sizes(sizes)?;
    let mut header = header(op as u16, request, sizes);
    let mut sum = crc32c::crc32c_append(crc32c::crc32c(&header), &json);
    for (_, array) in arrays {
        sum = crc32c::crc32c_append(sum, array.bytes());
    }
    header[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    let mut put =
        |bytes: &[u8]| to.write_all(bytes).map_err(|e| Error::state("writing a frame", e.to_string()));
    put(&header)?;
    put(&json)?;
    arrays.iter().try_for_each(|(_, array)| put(array.bytes()))
}

/// Makes the header of a frame, with a checksum of 0; `json` and `arrays` are numbers of bytes.
fn header(op: u16, request: u64, [json, arrays]: [u64; 2]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&MARK);
    header[4..6].copy_from_slice(&VERSION.to_le_bytes());
    header[6..8].copy_from_slice(&op.to_le_bytes());
    header[8..16].copy_from_slice(&request.to_le_bytes());
    header[16..24].copy_from_slice(&json.to_le_bytes());
    header[24..32].copy_from_slice(&arrays.to_le_bytes());
    header
}

/// Returns an error if the JSON or the arrays of a frame are too long.
fn check_sizes(sizes: [u64; 2]) -> Result<()> {
    for (what, size, most) in [("JSON", sizes[0], MAX_JSON), ("arrays", sizes[1], MAX_ARRAYS)] {
        if size > most {
            return Err(damaged(format!("{what} of {size} bytes, but at most {most} are allowed")));
        }
    }
    Ok(())
}

/// Reads a frame. Returns `None` if the data end, even in the middle of a frame, because then the writer is gone.
///
/// # Errors
/// Fails if the frame is damaged or of another version, or if `from` fails.
pub(crate) fn read(from: &mut impl Read) -> Result<Option<Frame>> {
    let Some(header) = take(from, HEADER as u64)? else { return Ok(None) };
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if header[..4] != MARK {
        return Err(damaged("it does not begin with the mark of a frame"));
    }
    if short(4) != VERSION {
        let reason = format!("it is of version {}, but this executable speaks {VERSION}", short(4));
        return Err(damaged(format!("{reason}; both ends must be the same executable")));
    }
    let request = number(8);
    let sizes = [number(16), number(24)];
    check_sizes(sizes)?;
    let sum = u32::from_le_bytes(header[CHECKSUM].try_into().unwrap_or_default());
    let mut blank = header.clone();
    blank[CHECKSUM].fill(0);
    let Some(json) = take(from, sizes[0])? else { return Ok(None) };
    let mut found = crc32c::crc32c_append(crc32c::crc32c(&blank), &json);
    // If the JSON cannot be read, the rest is read only for its checksum.
    let described = serde_json::from_slice::<Described>(&json);
    let mut arrays = Vec::new();
    let mut left = sizes[1];
    for (name, dtype, shape) in described.iter().flat_map(|described| &described.arrays) {
        let kind = kind(dtype)?;
        let size = bytes_of(kind, shape).filter(|size| *size <= left);
        let size = size.ok_or_else(|| damaged(format!("its array `{name}` does not fit into it")))?;
        let Some(array) = until_its_end(Array::read_from(from, kind, shape))? else { return Ok(None) };
        found = crc32c::crc32c_append(found, array.bytes());
        left -= size;
        if kind == Kind::Bool && array.bytes().iter().any(|byte| *byte > 1) {
            return Err(damaged(format!("its array `{name}` has what is neither true nor false")));
        }
        arrays.push((name.clone(), array));
    }
    let Some(rest) = take(from, left)? else { return Ok(None) };
    if crc32c::crc32c_append(found, &rest) != sum {
        return Err(damaged("its checksum is wrong"));
    }
    let described = described.map_err(|e| damaged(format!("its JSON cannot be read: {e}")))?;
    if left > 0 {
        return Err(damaged(format!("{left} bytes belong to no array")));
    }
    let op = Op::ALL.into_iter().find(|known| *known as u16 == short(6));
    let op = op.ok_or_else(|| damaged(format!("there is no operation {}", short(6))))?;
    let state = State::from_parts(described.values, arrays);
    Ok(Some(Frame { op, request, message: Message { head: described.head, state: Cow::Owned(state) } }))
}

/// Reads `size` bytes; returns `None` if the data end before. Memory grows only as bytes arrive.
fn take(from: &mut impl Read, size: u64) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(size.min(AT_ONCE) as usize);
    let came = until_its_end(from.take(size).read_to_end(&mut bytes))?;
    Ok(came.map(|_| bytes).filter(|bytes| bytes.len() as u64 == size))
}

/// Turns the end of the data into `None`: then the writer is gone.
fn until_its_end<T>(came: io::Result<T>) -> Result<Option<T>> {
    match came {
        Ok(came) => Ok(Some(came)),
        Err(e) if [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof].contains(&e.kind()) => Ok(None),
        Err(e) => Err(damaged(e.to_string())),
    }
}

/// Makes the error about a frame that cannot be read.
pub(crate) fn damaged(reason: impl Into<String>) -> Error {
    Error::state("a frame", reason)
}

/// The name of a type of numbers in frames.
fn dtype(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "F32",
        Kind::F64 => "F64",
        Kind::I64 => "I64",
        Kind::U8 => "U8",
        Kind::Bool => "BOOL",
    }
}

/// The type of numbers with this name.
fn kind(name: &str) -> Result<Kind> {
    let kind = Kind::ALL.into_iter().find(|&kind| dtype(kind) == name);
    kind.ok_or_else(|| damaged(format!("there is no type {name:?} of numbers")))
}

/// Number of bytes of an array; `None` if it is too large, or the shape has a negative number or too many.
fn bytes_of(kind: Kind, shape: &[i64]) -> Option<u64> {
    let size = kind.size() as u64;
    (shape.len() <= MAX_AXES).then_some(())?;
    shape.iter().try_fold(size, |size, axis| size.checked_mul(u64::try_from(*axis).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_reaches_ray_knows_the_numbers_of_operations() {
        let script = include_str!("../../../../processes/src/ray.py");
        for (name, op) in [("SET_WEIGHTS", Op::SetWeights), ("PROBE", Op::Probe), ("FOLLOW", Op::Follow)] {
            assert!(script.contains(&format!("\n{name} = {}\n", op as u16)), "{name}");
        }
    }
}
