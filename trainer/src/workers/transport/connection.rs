//! One life of a worker in another process: a thread that writes to it and one that reads.
//!
//! Neither the thread of the plan nor that of another worker waits for a process: a stopped one fills its own socket, and only
//! its own threads stand still. A process that is silent is probed. A thread of its own answers, so a process that does not
//! answer is stopped, or its machine is gone, while one whose environment is slow answers at once.

use crate::base::{Error, Result, lock};
use crate::sample::{Reply, Request, SpecByName};
use crate::workers::transport::pool::{Completion, Fault};
use crate::workers::wire;
use crate::workers::wire::{Message, Op};
use crossbeam_channel::{Receiver, Sender, unbounded};
use pavlov_tune::internal::Body;
use std::collections::VecDeque;
use std::io;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Probes that a process may leave unanswered. The time that it has for an answer is divided by them.
const PROBES: u32 = 4;

/// The number of a probe. No request has it.
const PROBE: u64 = 0;

/// Whose life it is, and where its completions go.
#[derive(Clone, Debug)]
pub(crate) struct WorkerAddress {
    pub(super) worker: usize,
    pub(super) incarnation: u64,
    pub(super) completions: Sender<Completion>,
}

impl WorkerAddress {
    fn complete(&self, request: u64, result: Result<Reply, Fault>) {
        let Self { worker, incarnation, .. } = *self;
        // The pool may be gone.
        let _ = self.completions.send(Completion { worker, incarnation, request, result });
    }
}

/// A worker's process and what it owes.
#[derive(Debug)]
pub(crate) struct Connection {
    place: WorkerAddress,
    outgoing: Option<Sender<Outgoing>>,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Outgoing {
    Request(u64, Request),
    Probe,
}

#[derive(Debug)]
struct Shared {
    socket: UnixStream,
    process: Mutex<Box<dyn Body>>,
    owed: Mutex<PendingRequest>,
}

#[derive(Debug, Default)]
struct PendingRequest {
    /// In the order they were asked.
    requests: VecDeque<u64>,
    /// What the life ended by, as far as that is known before its process is gone.
    cause: Option<String>,
    /// The process is gone, and why.
    gone: Option<String>,
}

impl Connection {
    /// Tells the process at the other end of the socket what it is. It answers `start` when it is ready.
    pub(super) fn start(
        process: Box<dyn Body>,
        socket: UnixStream,
        spec: &Arc<SpecByName>,
        place: WorkerAddress,
        start: u64,
    ) -> Result<Self> {
        let owed = PendingRequest { requests: VecDeque::from([start]), ..PendingRequest::default() };
        let shared = Arc::new(Shared { socket, process: Mutex::new(process), owed: Mutex::new(owed) });
        let probe_timeout = spec.common.worker_health_probe_timeout_s.map(Duration::from_secs_f64);
        let _ = shared.socket.set_read_timeout(probe_timeout.map(|timeout| timeout / PROBES));
        let (outgoing, inbox) = unbounded();
        let named =
            |what: &str| std::thread::Builder::new().name(format!("{what}-worker-{}", place.worker + 1));
        let no_thread = |e: std::io::Error| Error::Worker {
            worker: place.worker + 1,
            reason: format!("no thread for its process: {e}"),
        };
        let (lent, spec, worker) = (Arc::clone(&shared), Arc::clone(spec), place.worker);
        named("to").spawn(move || send(&lent, &spec, worker, start, &inbox)).map_err(no_thread)?;
        let (lent, to, probes) = (Arc::clone(&shared), place.clone(), outgoing.clone());
        let reader = named("from").spawn(move || receive(&lent, &to, probes)).map_err(no_thread)?;
        Ok(Self { place, outgoing: Some(outgoing), shared, reader: Some(reader) })
    }

    pub(super) fn incarnation(&self) -> u64 {
        self.place.incarnation
    }

    /// Hands a request over; a process that is gone completes it at once.
    pub(super) fn submit(&self, number: u64, request: Request) {
        let mut owed = lock(&self.shared.owed);
        if let Some(reason) = &owed.gone {
            let fault = Fault::Dead(reason.clone());
            self.place.complete(number, Err(fault));
            return;
        }
        owed.requests.push_back(number);
        if let Some(outgoing) = &self.outgoing {
            // A writer that has ended closed the socket, so the reader completes what is owed.
            let _ = outgoing.send(Outgoing::Request(number, request));
        }
    }

    /// Ends the process at once, stopped or not. Its reader notices and buries it.
    pub(super) fn kill(&self) {
        // Its reader has the lock while it waits for the end, and sees to it.
        if let Ok(mut process) = self.shared.process.try_lock() {
            process.kill();
        }
        let _ = self.shared.socket.shutdown(Shutdown::Both);
    }

    /// Lets the process end by itself: there will be no more requests.
    pub(super) fn close(&mut self) {
        self.outgoing = None;
        let _ = self.shared.socket.shutdown(Shutdown::Both);
    }

    /// Waits until the process, which was told so, is gone, and ends it if that takes long.
    pub(super) fn bury(&mut self) {
        self.reader.take().map(JoinHandle::join);
    }
}

/// Writes what a worker is made from, and then its requests.
fn send(shared: &Shared, spec: &SpecByName, worker: usize, start: u64, inbox: &Receiver<Outgoing>) {
    let mut to = BufWriter::new(&shared.socket);
    let begin = || Message::default().with("spec", spec)?.with("worker", &(worker + 1));
    let mut sent = begin().and_then(|message| wire::write(&mut to, Op::Start, start, &message));
    loop {
        let flushed = |()| to.flush().map_err(|e| Error::state("writing a frame", e.to_string()));
        sent = sent.and_then(flushed);
        if sent.is_err() {
            break;
        }
        sent = match inbox.recv() {
            Ok(Outgoing::Request(number, request)) => wire::write_request(&mut to, number, &request),
            Ok(Outgoing::Probe) => wire::write(&mut to, Op::Probe, PROBE, &Message::default()),
            Err(_) => return,
        };
    }
    if let Err(error) = sent {
        // Where the process is gone, that says more.
        let is_gone = lock(&shared.owed).gone.is_some();
        tracing::debug!(worker = worker + 1, is_gone, "a request was not sent: {error}");
        let _ = shared.socket.shutdown(Shutdown::Both);
    }
}

/// What a process says. While it says nothing it is probed, from its first word on.
struct Probed<'a> {
    shared: &'a Shared,
    probes: Sender<Outgoing>,
    /// It has said something.
    lives: bool,
    /// Probes since it said something last.
    unanswered: u32,
}

impl Probed<'_> {
    fn answers(&self) -> bool {
        self.unanswered < PROBES
    }
}

impl Read for Probed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&self.shared.socket).read(buffer) {
                Err(silent) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&silent.kind()) => {}
                said => {
                    (self.lives, self.unanswered) = (true, 0);
                    return said;
                }
            }
            if !self.answers() {
                let reason = "its process has stopped, or its machine is gone: it does not answer probes \
                              (`worker_health_probe_timeout_s`)";
                lock(&self.shared.owed).cause.get_or_insert(reason.to_owned());
                return Ok(0);
            }
            if self.lives {
                self.unanswered += 1;
                // A writer that stands still has the probe before it.
                let _ = self.probes.send(Outgoing::Probe);
            }
        }
    }
}

/// Reads replies until the process is gone, and then completes what it owes.
fn receive(shared: &Shared, place: &WorkerAddress, probes: Sender<Outgoing>) {
    let mut from = BufReader::new(Probed { shared, probes, lives: false, unanswered: 0 });
    loop {
        let (number, result) = match wire::read_reply(&mut from) {
            Ok(Some(answer)) => answer,
            Ok(None) => break,
            Err(error) => {
                lock(&shared.owed)
                    .cause
                    .get_or_insert(format!("its process sent what cannot be read: {error}"));
                break;
            }
        };
        if number == PROBE {
            continue;
        }
        let mut owed = lock(&shared.owed);
        if owed.requests.front() != Some(&number) {
            owed.cause.get_or_insert(format!("its process answered request {number} out of turn"));
            break;
        }
        owed.requests.pop_front();
        if let Err(Fault::Dead(reason)) = &result {
            owed.cause.get_or_insert(reason.clone());
        }
        drop(owed);
        place.complete(number, result);
    }
    let _ = shared.socket.shutdown(Shutdown::Both);
    let mut process = lock(&shared.process);
    let cause = lock(&shared.owed).cause.take();
    // Where the cause is known, no one waits for the end of the process.
    let is_known = cause.is_some();
    let reason = cause.unwrap_or_else(|| process.wait());
    let mut owed = lock(&shared.owed);
    owed.gone = Some(reason.clone());
    owed.requests.drain(..).for_each(|number| place.complete(number, Err(Fault::Dead(reason.clone()))));
    drop(owed);
    if is_known {
        if !from.get_ref().answers() {
            process.kill();
        }
        process.wait();
    }
}
