//! One exchange with one peer, over a socket that is not waited for.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{Call, Head};

/// Maximum time to wait for a live worker's call, as in `torch.distributed`; it may be evaluating its validation set.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Data sent to and received from one peer in one exchange.
pub(super) struct Transfer<'a> {
    pub(super) rank: usize,
    pub(super) socket: &'a OwnedFd,
    pub(super) out: &'a [u8],
    pub(super) sent: usize,
    pub(super) head: [u8; Head::BYTES],
    pub(super) into: &'a mut [u8],
    pub(super) received: usize,
}

impl Transfer<'_> {
    pub(super) fn is_sent(&self) -> bool {
        self.sent == Head::BYTES + self.out.len()
    }

    pub(super) fn is_received(&self) -> bool {
        self.received == Head::BYTES + self.into.len()
    }

    fn wanted(&self) -> PollFd<'_> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::OUT, !self.is_sent());
        flags.set(PollFlags::IN, !self.is_received());
        PollFd::new(self.socket, flags)
    }

    /// Sends as many bytes as the socket accepts now; returns true if there were any.
    pub(super) fn send(&mut self, head: &[u8; Head::BYTES]) -> io::Result<bool> {
        let before = self.sent;
        while !self.is_sent() {
            let in_head = self.sent.min(Head::BYTES);
            let parts = [IoSlice::new(&head[in_head..]), IoSlice::new(&self.out[self.sent - in_head..])];
            match rustix::io::writev(self.socket, &parts).map_err(io::Error::from) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The peer is gone. Its earlier messages, which may tell the reason, are still to be read.
                Err(error) if is_gone(&error) => self.sent = Head::BYTES + self.out.len(),
                Err(error) => return Err(error),
            }
        }
        Ok(self.sent > before)
    }

    /// Receives the bytes that have arrived; returns true if there were any.
    pub(super) fn receive(&mut self, expected: Head) -> Result<bool> {
        let before = self.received;
        let lost = || Error::WorkerLost { rank: self.rank, call: expected.call.name() };
        while !self.is_received() {
            let in_head = self.received.min(Head::BYTES);
            let body = &mut self.into[self.received - in_head..];
            let mut parts = [IoSliceMut::new(&mut self.head[in_head..]), IoSliceMut::new(body)];
            match rustix::io::readv(self.socket, &mut parts).map_err(io::Error::from) {
                Ok(0) => return Err(lost()),
                Ok(bytes) => self.received += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_gone(&error) => return Err(lost()),
                Err(error) => return Err(Error::other(error)),
            }
            if in_head < Head::BYTES && self.received >= Head::BYTES {
                self.compare(expected)?;
            }
        }
        Ok(self.received > before)
    }

    fn compare(&self, expected: Head) -> Result<()> {
        let said = Head::from_bytes(self.head);
        if said == Some(expected) {
            return Ok(());
        }
        let said = said.map_or_else(|| "what is no call".into(), |head| head.to_string());
        Err(Error::other(format!(
            "worker {} calls {said} where this worker calls {expected}; all workers make the same calls, with as many \
             values, in the same order",
            self.rank
        )))
    }
}

/// Sleeps until one of the sockets can be read or written; fails after [`PATIENCE`].
pub(super) fn wait(open: &[Transfer<'_>], call: Call) -> Result<()> {
    let mut sockets: Vec<PollFd<'_>> = open.iter().map(Transfer::wanted).collect();
    let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut sockets, Some(&timeout)) {
        Ok(0) => {
            let absent: Vec<String> = open.iter().map(|transfer| transfer.rank.to_string()).collect();
            Err(Error::other(format!(
                "`{}` has waited {} minutes for workers {}: all workers make the same calls",
                call.name(),
                PATIENCE.as_secs() / 60,
                absent.join(", ")
            )))
        }
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::other(io::Error::from(errno))),
    }
}

fn is_gone(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, HostUnreachable, NotConnected, TimedOut};
    matches!(error.kind(), BrokenPipe | ConnectionReset | HostUnreachable | NotConnected | TimedOut)
}
