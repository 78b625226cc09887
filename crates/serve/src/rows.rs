//! Requests and answers as binary rows.
//!
//! 24 bytes, little endian: `pvr1`; the kind of the numbers; flags; two zeros; rows and columns as u32; a version as u64.
//! Then the rows, then for each flag what it announces: a byte per option that says whether the action is legal; a u64 per row,
//! whose decimal text names the row's session; a byte per row that says whether the row begins its episode. In a request the
//! version is that of the policy that is to answer, and 0 stands for any.

use super::numbers::{Actions, Numbers};
use super::refusal::Refusal;
use super::request::Request;
use pavlov_envs::DType;
use pavlov_trainer::Loaded;

/// The content type of binary rows.
pub(super) const CONTENT: &str = "application/x-pavlov-rows";

const MAGIC: &[u8] = b"pvr1";
const HEADER: usize = 24;

/// Flags of a request.
const MASKS: u8 = 1;
const SESSIONS: u8 = 2;
const BEGINS: u8 = 4;
const EXPLORE: u8 = 8;

/// The kind of numbers as the header names it.
fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::F32 => 0,
        DType::I64 => 1,
        DType::U8 => 2,
        DType::F64 => 3,
    }
}

/// Reads a request for actions.
pub(super) fn read(body: &[u8], policy: &Loaded) -> Result<Request, Refusal> {
    let dtype = policy.observation_dtype();
    let width = policy.observation_width();
    let refuse = |message: String| Err(Refusal::bad("rows", message));
    if body.len() >= HEADER && body[..3] == MAGIC[..3] && body[3] != MAGIC[3] {
        let (sent, read) = (String::from_utf8_lossy(&body[..4]), String::from_utf8_lossy(MAGIC));
        return refuse(format!("the rows are of version {sent:?}, but this server reads version {read:?}"));
    }
    if body.len() < HEADER || !body.starts_with(MAGIC) || body[6..8] != [0, 0] {
        return refuse(format!(
            "the body does not begin with a header of rows: {HEADER} bytes, the first of them `pvr1`, bytes 6 and 7 zero"
        ));
    }
    let number =
        |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]) as usize;
    let flags = body[5];
    let rows = number(8);
    let columns = number(12);
    if body[4] != kind(dtype) {
        let wanted = kind(dtype);
        return refuse(format!(
            "the numbers are of kind {}, but observations are {dtype}, kind {wanted}",
            body[4]
        ));
    }
    if flags > (MASKS | SESSIONS | BEGINS | EXPLORE) {
        return refuse(format!("the flags are {flags}, but only 1, 2, 4 and 8 have a meaning"));
    }
    if columns != width {
        let message = format!("a row has {columns} columns, but an observation has {width}");
        return Err(Refusal::bad("width", message));
    }
    let options = if flags & MASKS == 0 { 0 } else { policy.mask_width().unwrap_or(0) };
    let named = if flags & SESSIONS == 0 { 0 } else { 8 };
    let begun = usize::from(flags & BEGINS != 0);
    let of_row = width * dtype.size() + options + named + begun;
    let wanted = rows.checked_mul(of_row).and_then(|all| all.checked_add(HEADER));
    if wanted != Some(body.len()) {
        return refuse(format!(
            "the body has {} bytes, but {rows} rows of {of_row} bytes behind a header of {HEADER} are announced",
            body.len()
        ));
    }
    let mut rest = &body[HEADER..];
    let mut next = |bytes: usize| {
        let (head, tail) = rest.split_at(rows * bytes);
        rest = tail;
        head
    };
    let obs = next(width * dtype.size());
    let obs = match dtype {
        DType::U8 => Numbers::U8(obs.to_vec()),
        DType::I64 => Numbers::I64(obs.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect()),
        DType::F32 => Numbers::F32(obs.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()),
        DType::F64 => Numbers::F64(obs.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect()),
    };
    // With the flag but without masks in the policy this is empty, and refused as such.
    let mask = (flags & MASKS != 0).then(|| next(options).iter().map(|&flag| flag != 0).collect());
    let sessions = next(named).as_chunks().0.iter().map(|&b| u64::from_le_bytes(b).to_string()).collect();
    let begins = next(begun).iter().map(|&flag| flag != 0).collect();
    let version = u64::from_le_bytes(body[16..HEADER].try_into().unwrap_or_default());
    let version = Some(version).filter(|version| *version != 0);
    let explores = flags & EXPLORE != 0;
    Ok(Request { obs, rows, is_single: false, mask, sessions, begins, explores, version })
}

/// Writes the answer: the same header, then the actions as i64 or f32.
pub(super) fn write(actions: &Actions, policy: &Loaded, version: u64) -> Vec<u8> {
    let width = policy.action_width();
    let mut out = Vec::new();
    let mut header = |dtype: DType, numbers: usize| {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[kind(dtype), 0, 0, 0]);
        out.extend_from_slice(&((numbers / width.max(1)) as u32).to_le_bytes());
        out.extend_from_slice(&(width as u32).to_le_bytes());
        out.extend_from_slice(&version.to_le_bytes());
    };
    match actions {
        Actions::Int(all) => {
            header(DType::I64, all.len());
            all.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        }
        Actions::Float(all) => {
            header(DType::F32, all.len());
            all.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        }
    }
    out
}
