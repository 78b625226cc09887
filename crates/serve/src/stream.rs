//! A connection that is closed when its client is silent for too long.

use super::limits::Limits;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// Number of bytes that are read at once.
const CHUNK: usize = 8192;

/// What a connection waits for.
#[derive(Debug, Default)]
pub(super) struct Phase(AtomicU8);

impl Phase {
    const IDLE: u8 = 0;
    const HEADER: u8 = 1;
    const REQUEST: u8 = 2;

    /// A request has come and is worked on. Its body has a time of its own.
    pub(super) fn enter(&self) {
        self.0.store(Self::REQUEST, Ordering::Relaxed);
    }

    /// The request is answered.
    pub(super) fn leave(&self) {
        self.0.store(Self::IDLE, Ordering::Relaxed);
    }
}

/// A TCP connection with time limits for headers, for being idle, and for answers that are not read.
#[derive(Debug)]
pub(super) struct Timed {
    stream: TcpStream,
    phase: Arc<Phase>,
    /// The phase that `since` is the beginning of.
    seen: u8,
    since: Instant,
    header: Duration,
    idle: Duration,
    write: Duration,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    pub(super) fn new(stream: TcpStream, phase: Arc<Phase>, limits: &Limits) -> Self {
        Self {
            stream,
            phase,
            seen: Phase::IDLE,
            since: Instant::now(),
            header: limits.header_timeout,
            idle: limits.idle_timeout,
            write: limits.write_timeout,
            reading: None,
            writing: None,
        }
    }

    /// The error once the client has been silent for too long in this phase.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let phase = self.phase.0.load(Ordering::Relaxed);
        if phase != self.seen {
            self.seen = phase;
            self.since = Instant::now();
        }
        let limit = match phase {
            Phase::IDLE => self.idle,
            Phase::HEADER => self.header,
            _ => return Poll::Pending,
        };
        let until = self.since + limit;
        let sleep = self.reading.get_or_insert_with(|| Box::pin(sleep_until(until)));
        loop {
            // A timer that rings too early is set again then: cheaper than to set it for every request.
            if sleep.deadline() > until {
                sleep.as_mut().reset(until);
            }
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= until {
                return Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client is silent")));
            }
            sleep.as_mut().reset(until);
        }
    }
}

impl Read for Timed {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let mut chunk = [0; CHUNK];
        let room = buf.remaining().min(CHUNK);
        let mut read = ReadBuf::new(&mut chunk[..room]);
        if Pin::new(&mut this.stream).poll_read(cx, &mut read)?.is_pending() {
            return this.poll_silence(cx);
        }
        let read = read.filled();
        buf.put_slice(read);
        if !read.is_empty() && this.phase.0.load(Ordering::Relaxed) == Phase::IDLE {
            this.phase.0.store(Phase::HEADER, Ordering::Relaxed);
            this.seen = Phase::HEADER;
            this.since = Instant::now();
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Timed {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        if let Poll::Ready(written) = Pin::new(&mut this.stream).poll_write(cx, buf) {
            return Poll::Ready(written);
        }
        let write = this.write;
        let sleep = this.writing.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + write)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read its answer")))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        // Called when all of an answer was handed to the system.
        this.writing = None;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
