//! Wire format of the sockets: every message begins with a head that names the call to which it belongs.

use std::fmt;

use super::ReduceOp;

/// Head of a message: the parts of a call on which all workers must agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Head {
    pub(super) call: Call,
    /// Length of the data, in values for a reduction and in bytes for a broadcast; 0 if workers may have different lengths.
    pub(super) len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Call {
    AllReduce {
        width: u8,
        op: ReduceOp,
    },
    Broadcast {
        root: u32,
    },
    AllGather,
    Barrier,
    /// Barrier of `session::report`, which all workers call together.
    Report,
}

impl Call {
    pub(super) fn name(self) -> &'static str {
        match self {
            Call::AllReduce { width: 8, .. } => "all_reduce_f64",
            Call::AllReduce { .. } => "all_reduce",
            Call::Broadcast { .. } => "broadcast",
            Call::AllGather => "all_gather",
            Call::Barrier => "barrier",
            Call::Report => "session::report",
        }
    }
}

impl Head {
    pub(super) const BYTES: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let (kind, detail, root) = match self.call {
            Call::AllReduce { width, op: ReduceOp::Sum } => (1, width, 0),
            Call::AllReduce { width, op: ReduceOp::Mean } => (2, width, 0),
            Call::Broadcast { root } => (3, 0, root),
            Call::AllGather => (4, 0, 0),
            Call::Barrier => (5, 0, 0),
            Call::Report => (6, 0, 0),
        };
        let mut bytes = [0; Self::BYTES];
        bytes[0] = kind;
        bytes[1] = detail;
        bytes[4..8].copy_from_slice(&root.to_le_bytes());
        bytes[8..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Parses a head; `None` if the bytes are not a head.
    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [kind, width, _, _, r0, r1, r2, r3, len @ ..] = bytes;
        let call = match kind {
            1 => Call::AllReduce { width, op: ReduceOp::Sum },
            2 => Call::AllReduce { width, op: ReduceOp::Mean },
            3 => Call::Broadcast { root: u32::from_le_bytes([r0, r1, r2, r3]) },
            4 => Call::AllGather,
            5 => Call::Barrier,
            6 => Call::Report,
            _ => return None,
        };
        Some(Head { call, len: u64::from_le_bytes(len) })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.call.name();
        let len = self.len;
        match self.call {
            Call::AllReduce { op, .. } => write!(f, "`{name}` ({op:?}) of {len} values"),
            Call::Broadcast { root } => write!(f, "`{name}` of {len} bytes from worker {root}"),
            _ => write!(f, "`{name}`"),
        }
    }
}
