//! Requests and replies as bytes, for transports to another process.
//!
//! Each request or reply is a frame: a header of 40 bytes, JSON, and the bytes of arrays one after the other. All
//! numbers are little-endian. The header has these fields:
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | the mark `PVLW` |
//! | 2 | the version of the frames |
//! | 2 | the kind of request or reply |
//! | 8 | the number of the request that the frame carries or answers |
//! | 8 | bytes of JSON |
//! | 8 | bytes of arrays |
//! | 4 | CRC-32C of everything else |
//! | 4 | zero |
//!
//! The JSON is an object with three keys: `head`, the named values of the message; `values`, the values of a
//! [`State`](crate::state::State); and `arrays`, a list of `[name, dtype, shape]` in the order of their bytes.

mod frame;
mod messages;

pub(crate) use frame::{Message, Op, read, write};
pub(crate) use messages::to_request;
pub use messages::{read_reply, read_request, write_reply, write_request};
