//! The connection to a worker's process: one thread that writes requests and one that reads replies.
//!
//! The plan's thread never waits for a process: when a process stops reading, only the threads of its own connection
//! wait. A process that sends nothing is probed. A thread of its own answers probes in the process, so a process with a
//! slow environment answers at once, and one that does not answer has stopped, or its machine is gone.

use crate::sample::{Reply, Request, WorkerSpec};
use crate::workers::transport::pool::{Completion, Fault};
use crate::workers::wire;
use crate::workers::wire::{Message, Op};
use crossbeam_channel::{Receiver, Sender, unbounded};
use pavlov_learn::base::{Error, Result, lock};
use pavlov_processes::ChildHandle;
use std::collections::VecDeque;
use std::io;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of unanswered probes after which a process counts as gone. Probes are sent at intervals of
/// `worker_health_probe_timeout_s / PROBES`.
const PROBES: u32 = 4;

/// The request number of a probe; no other request has it.
const PROBE: u64 = 0;

/// The worker and incarnation that a process stands for, and the channel for its completions.
#[derive(Clone, Debug)]
pub(crate) struct WorkerAddress {
    /// Index of the worker, counted from 0.
    pub(super) worker: usize,
    /// Number of times that the worker was replaced before.
    pub(super) incarnation: u64,
    /// The pool's channel for completions.
    pub(super) completions: Sender<Completion>,
}

impl WorkerAddress {
    /// Sends a completion to the pool.
    fn complete(&self, request: u64, result: Result<Reply, Fault>) {
        let Self { worker, incarnation, .. } = *self;
        // The pool may already be dropped.
        let _ = self.completions.send(Completion { worker, incarnation, request, result });
    }
}

/// The connection to the process of one worker.
#[derive(Debug)]
pub(crate) struct Connection {
    place: WorkerAddress,
    /// The queue of requests and probes for the process; `None` after [`close`](Self::close).
    outgoing: Option<Sender<Outgoing>>,
    shared: Arc<Shared>,
    /// The thread that reads replies; `None` after [`bury`](Self::bury).
    reader: Option<JoinHandle<()>>,
}

/// A message to a process, which its writer thread sends.
#[derive(Debug)]
enum Outgoing {
    /// A request with its number.
    Request(u64, Request),
    /// A probe, which asks whether the process lives.
    Probe,
}

/// The state that the threads of a connection share with its owner.
#[derive(Debug)]
struct Shared {
    socket: UnixStream,
    /// The process, to kill it or to wait for its end.
    process: Mutex<Box<dyn ChildHandle>>,
    /// The unanswered requests.
    owed: Mutex<PendingRequest>,
}

/// The unanswered requests of a process, and the reasons why it is gone.
#[derive(Debug, Default)]
struct PendingRequest {
    /// Numbers of the unanswered requests, the oldest first.
    requests: VecDeque<u64>,
    /// Why the connection broke, if the reason is known before the process has ended.
    cause: Option<String>,
    /// Why the process is gone; `None` while it lives.
    gone: Option<String>,
}

impl Connection {
    /// Starts the threads of the connection, and sends the worker number and settings to the process at the other end
    /// of the socket. When the process is ready, it answers the request with number `start`.
    pub(super) fn start(
        process: Box<dyn ChildHandle>,
        socket: UnixStream,
        spec: &Arc<WorkerSpec>,
        place: WorkerAddress,
        start: u64,
    ) -> Result<Self> {
        let owed = PendingRequest { requests: VecDeque::from([start]), ..PendingRequest::default() };
        let shared = Arc::new(Shared { socket, process: Mutex::new(process), owed: Mutex::new(owed) });
        let probe_timeout = spec.names.common.worker_health_probe_timeout_s.map(Duration::from_secs_f64);
        let _ = shared.socket.set_read_timeout(probe_timeout.map(|timeout| timeout / PROBES));
        let (outgoing, inbox) = unbounded();
        let named =
            |what: &str| std::thread::Builder::new().name(format!("{what}-worker-{}", place.worker + 1));
        let no_thread = |e: std::io::Error| Error::Worker {
            worker: place.worker + 1,
            reason: format!("no thread for its process: {e}"),
        };
        let lent = Arc::clone(&shared);
        let spec = Arc::clone(spec);
        let worker = place.worker;
        named("to").spawn(move || send(&lent, &spec, worker, start, &inbox)).map_err(no_thread)?;
        let lent = Arc::clone(&shared);
        let to = place.clone();
        let probes = outgoing.clone();
        let reader = named("from").spawn(move || receive(&lent, &to, probes)).map_err(no_thread)?;
        Ok(Self { place, outgoing: Some(outgoing), shared, reader: Some(reader) })
    }

    /// Number of times that the worker was replaced before.
    pub(super) fn incarnation(&self) -> u64 {
        self.place.incarnation
    }

    /// Queues a request for the process; if the process is gone, completes the request with an error at once.
    pub(super) fn submit(&self, number: u64, request: Request) {
        let mut owed = lock(&self.shared.owed);
        if let Some(reason) = &owed.gone {
            let fault = Fault::Dead(reason.clone());
            self.place.complete(number, Err(fault));
            return;
        }
        owed.requests.push_back(number);
        if let Some(outgoing) = &self.outgoing {
            // If the writer thread has ended, it has closed the socket, and the reader completes the open requests.
            let _ = outgoing.send(Outgoing::Request(number, request));
        }
    }

    /// Kills the process, even a stopped one. The reader thread then notices the end and waits for it.
    pub(super) fn kill(&self) {
        // If the lock is taken, the reader thread waits for the end of the process already.
        if let Ok(mut process) = self.shared.process.try_lock() {
            process.kill();
        }
        let _ = self.shared.socket.shutdown(Shutdown::Both);
    }

    /// Closes the queue of requests and the socket, so that the process ends by itself.
    pub(super) fn close(&mut self) {
        self.outgoing = None;
        let _ = self.shared.socket.shutdown(Shutdown::Both);
    }

    /// Waits for the end of the process after [`close`](Self::close). A process that takes too long is killed.
    pub(super) fn bury(&mut self) {
        self.reader.take().map(JoinHandle::join);
    }
}

/// Writes the settings of a worker, and then its requests and probes, until the queue is closed or writing fails.
fn send(shared: &Shared, spec: &WorkerSpec, worker: usize, start: u64, inbox: &Receiver<Outgoing>) {
    let mut to = BufWriter::new(&shared.socket);
    let begin = || {
        let message = Message::default().with("names", &spec.names)?.with("code", &spec.code_names())?;
        message.with("worker", &(worker + 1))
    };
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
        // If the process is gone, the reason for its end says more than this error.
        let is_gone = lock(&shared.owed).gone.is_some();
        tracing::debug!(worker = worker + 1, is_gone, "a request was not sent: {error}");
        let _ = shared.socket.shutdown(Shutdown::Both);
    }
}

/// A reader of the output of a process, which sends probes while the process is silent, but not before its first
/// output.
struct Probed<'a> {
    shared: &'a Shared,
    /// The queue for the process, into which probes go.
    probes: Sender<Outgoing>,
    /// Whether the process has sent anything yet.
    lives: bool,
    /// Number of probes since the process last sent anything.
    unanswered: u32,
}

impl Probed<'_> {
    /// Whether the process has not left too many probes unanswered.
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
                    self.lives = true;
                    self.unanswered = 0;
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
                // If the writer thread is blocked, the previous probe is still in its queue.
                let _ = self.probes.send(Outgoing::Probe);
            }
        }
    }
}

/// Reads replies and passes them to the pool, until the process is gone; then completes the open requests with an
/// error.
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
    // If the reason is known, it is reported before the process has ended.
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
