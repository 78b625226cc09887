//! The process of a data-parallel worker, and the messages between it and its trial.
//!
//! The worker runs the trial's own function in a session that knows the worker's rank, so settings, datasets and
//! `setup` are made as in the trial. Its standard input is one end of a socket. Through it the trial first sends the
//! sockets to the other workers and a [`WorkerSetup`], then one [`Order`] for each [`WorkerMessage`], one JSON object
//! per line. On Ray sockets cannot be sent: each worker reports the address on which it listens, and receives the
//! addresses of all workers. The worker ends at once when its socket is closed, which happens whenever the trial ends,
//! in whatever way.

use std::cell::RefCell;
use std::env;
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use crossbeam_channel::bounded;
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::session::{self, Checkpoint, Message, Session};
use crate::{Config, Error, Metrics, Resources, Result, TrialContext, in_words};
use pavlov_processes::{NODE, Secret, panic_text};

/// Maximum number of sockets in one message, Linux's `SCM_MAX_FD`.
const MOST_SOCKETS: usize = 253;
/// Maximum number of workers on one machine: each one receives the sockets to all others in one message.
pub(super) const MOST_WORKERS: usize = MOST_SOCKETS + 1;

/// Everything that a worker needs to start, sent by its trial.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerSetup {
    pub(super) rank: usize,
    pub(super) trial_id: String,
    pub(super) trial_name: String,
    pub(super) trial_resources: Option<Resources>,
    pub(super) logdir: PathBuf,
    pub(super) config: Config,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Secret that only the workers of this group know; set on Ray only.
    pub(super) secret: Option<Secret>,
}

/// Message of the trial to its workers, sent after each of them has reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Connect to the workers at these addresses, given by rank. Sent on Ray only, as the first order.
    Meet(Vec<SocketAddr>),
    GoOn,
    Stop,
}

/// Message of a worker to its trial.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerMessage {
    /// Address on which the worker waits for those of higher rank. Sent on Ray only, as the first message.
    Listens(SocketAddr),
    Report(Metrics, Option<Checkpoint>),
    /// The function has returned, and the process ends.
    Ended,
    /// The function has failed, and the process ends. `is_lost` tells that the cause is another worker that has ended.
    Failed {
        message: String,
        is_lost: bool,
    },
}

impl WorkerMessage {
    fn failed(error: &Error) -> Self {
        WorkerMessage::Failed { message: in_words(error), is_lost: is_lost(error) }
    }
}

/// Sends `what` as one line of JSON.
pub(super) fn send_line(mut socket: &UnixStream, what: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(what).map_err(Error::other)?;
    line.push(b'\n');
    socket.write_all(&line).map_err(Error::other)
}

/// Sends file descriptors of sockets in one message, at most [`MOST_SOCKETS`].
pub(super) fn send_sockets(to: &UnixStream, sockets: &[OwnedFd]) -> Result<()> {
    let handles: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    if !rights.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(Error::other(format!("{} sockets are too many for one message", sockets.len())));
    }
    let sent = sendmsg(to, &[IoSlice::new(b"\n")], &mut rights, SendFlags::empty());
    sent.map(drop).map_err(|errno| Error::other(std::io::Error::from(errno)))
}

/// Receives the file descriptors that `send_sockets` sent.
fn receive_sockets(from: &UnixStream) -> Result<Vec<OwnedFd>> {
    let as_io = |errno: rustix::io::Errno| Error::other(std::io::Error::from(errno));
    let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_SOCKETS))];
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

/// Runs `function` as a worker of the trial at the other end of `socket`.
pub(crate) fn work(
    function: impl FnOnce(&Config) -> Result<Option<Metrics>> + Send + 'static,
    socket: UnixStream,
) -> Result<()> {
    let node = env::var(NODE).ok();
    let sent = if node.is_none() { receive_sockets(&socket)? } else { Vec::new() };
    let mut lines = BufReader::new(socket.try_clone().map_err(Error::other)?).lines();
    let Some(setup) = lines.next() else { return Ok(()) };
    let setup: WorkerSetup = serde_json::from_str(&setup.map_err(Error::other)?).map_err(Error::other)?;
    let (peers, (local_rank, node_rank)) = match (&node, &setup.secret) {
        (Some(node), Some(secret)) => {
            let (listener, address) = pavlov_processes::listen(node)?;
            send_line(&socket, &WorkerMessage::Listens(address))?;
            let Some(order) = lines.next() else { return Ok(()) };
            match serde_json::from_str(&order.map_err(Error::other)?).map_err(Error::other)? {
                Order::Meet(all) => match pavlov_processes::meet(&listener, setup.rank, &all, secret) {
                    Ok(peers) => (peers, pavlov_processes::place(setup.rank, &all)),
                    Err(error) => return send_line(&socket, &WorkerMessage::failed(&error.into())),
                },
                _ => return Ok(()),
            }
        }
        _ => (sent, (setup.rank, 0)),
    };
    let (reports_in, reports) = bounded(1);
    let (going_on, go_on) = bounded(1);
    let listen = move || {
        let mut going_on = Some(going_on);
        for line in lines {
            match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                Some(Order::GoOn) => {
                    if let Some(going_on) = &going_on {
                        let _ = going_on.send(());
                    }
                }
                Some(Order::Stop) => going_on = None,
                Some(Order::Meet(_)) | None => break,
            }
        }
        // The trial has ended, so nobody waits for the current computation.
        std::process::exit(0);
    };
    thread::Builder::new().spawn(listen).map_err(Error::other)?;
    let run = move || {
        let ends = reports_in.clone();
        session::enter(Session {
            context: TrialContext {
                trial_id: setup.trial_id,
                trial_name: setup.trial_name,
                trial_resources: setup.trial_resources,
                logdir: setup.logdir,
            },
            config: setup.config.clone(),
            reports: reports_in,
            go_on,
            checkpoint: setup.checkpoint.into(),
            metadata: Config::new().into(),
            since: Instant::now().into(),
            worker: Some(session::Worker {
                rank: setup.rank,
                peers: RefCell::new(peers),
                local_rank,
                node_rank,
                before_report: RefCell::default(),
            }),
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| function(&setup.config)));
        let outcome = outcome
            .unwrap_or_else(|panic| Err(Error::other(format!("it panicked: {}", panic_text(&*panic)))));
        let _ = ends.send(Message::End(outcome));
    };
    thread::Builder::new().name(format!("worker {}", setup.rank)).spawn(run).map_err(Error::other)?;
    for message in reports {
        let message = match message {
            Message::Report(metrics, None) => WorkerMessage::Report(metrics, None),
            Message::Report(metrics, Some(checkpoint)) => match checkpoint.with_absolute_paths() {
                Ok(checkpoint) => WorkerMessage::Report(metrics, Some(checkpoint)),
                Err(error) => WorkerMessage::failed(&error),
            },
            Message::End(Ok(_) | Err(Error::TrialStopped)) => WorkerMessage::Ended,
            Message::End(Err(error)) => WorkerMessage::failed(&error),
        };
        let is_last = !matches!(message, WorkerMessage::Report(..));
        send_line(&socket, &message)?;
        if is_last {
            break;
        }
    }
    Ok(())
}

/// Whether the error, or one of its causes, is that another worker has ended.
fn is_lost(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(pavlov_processes::Error::WorkerLost { .. }) = error.downcast_ref() {
            return true;
        }
        match error.downcast_ref::<Error>() {
            Some(Error::WorkerLost { .. }) => return true,
            // `Trainable` displays its source as itself, so `source` would skip it.
            Some(Error::Trainable { source }) => next = Some(&**source),
            _ => next = error.source(),
        }
    }
    false
}
