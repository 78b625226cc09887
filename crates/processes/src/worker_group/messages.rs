//! The messages between a group of workers and the process that started it.
//!
//! A worker's standard input is one end of a socket. Through it the worker first receives the sockets to the other workers and
//! a [`MemberSetup`], then one [`Instruction`] for each [`WorkerMessage`], one JSON object per line. On Ray sockets cannot be sent:
//! each worker says the address on which it listens, and receives the addresses of all workers.

use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::rendezvous::Secret;
use crate::{Error, Result};

/// Maximum number of sockets in one message, Linux's `SCM_MAX_FD`.
const MAX_SOCKETS: usize = 253;
/// Maximum number of workers on one machine: each one receives the sockets to all others in one message.
pub(super) const MAX_WORKERS: usize = MAX_SOCKETS + 1;

/// Everything that a worker needs to start; `T` is what the workers of this kind need beside their rank.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MemberSetup<T> {
    pub(super) rank: usize,
    /// Secret that only the workers of this group know; set on Ray only.
    pub(super) secret: Option<Secret>,
    pub(super) task: T,
}

/// Message to the workers of a group, sent after each of them has reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Instruction {
    /// Connect to the workers at these addresses, given by rank. Sent on Ray only, as the first order.
    Meet(Vec<SocketAddr>),
    GoOn,
    Stop,
}

/// Message of a worker to the process that started its group; `R` is the type of its reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerMessage<R> {
    /// Address at which workers of higher rank connect to this worker. It is the first message on Ray, and sent nowhere else.
    Listens(SocketAddr),
    /// One report; the worker waits until all workers have reported.
    Report(R),
    /// The worker has done its task, and its process ends.
    Ended,
    /// The worker has failed, and its process ends.
    Failed {
        /// The error as a sentence.
        message: String,
        /// Whether the cause is another worker that has ended.
        is_lost: bool,
    },
}

/// Sends `what` as one line of JSON.
pub(super) fn send_line(mut socket: &UnixStream, what: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(what).map_err(Error::other)?;
    line.push(b'\n');
    socket.write_all(&line).map_err(Error::other)
}

/// Sends file descriptors of sockets in one message, at most [`MAX_SOCKETS`].
pub(super) fn send_sockets(to: &UnixStream, sockets: &[OwnedFd]) -> Result<()> {
    let handles: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_SOCKETS))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    if !rights.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(Error::other(format!("{} sockets are too many for one message", sockets.len())));
    }
    let sent = sendmsg(to, &[IoSlice::new(b"\n")], &mut rights, SendFlags::empty());
    sent.map(drop).map_err(|errno| Error::other(std::io::Error::from(errno)))
}

/// Receives the file descriptors that `send_sockets` sent.
pub(super) fn receive_sockets(from: &UnixStream) -> Result<Vec<OwnedFd>> {
    let as_io = |errno: rustix::io::Errno| Error::other(std::io::Error::from(errno));
    let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_SOCKETS))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut rights, RecvFlags::empty()).map_err(as_io)?;
    let mut sockets = Vec::new();
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(handles) = message {
            for handle in handles {
                // A process that the worker starts must not inherit the socket, since that would keep it open.
                rustix::io::fcntl_setfd(&handle, rustix::io::FdFlags::CLOEXEC).map_err(as_io)?;
                sockets.push(handle);
            }
        }
    }
    Ok(sockets)
}
