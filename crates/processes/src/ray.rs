//! Connection to Ray: a helper process in Python (the engine) and the messages exchanged with it.
//!
//! One engine serves everything that this process runs on Ray, so that a run and its evaluation share a cluster. The
//! engine ends with its last user. It also ends with this process, in whatever way that ends, because its standard
//! input is closed then.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Deserialize;
use serde_json::Value;

use crate::child::{ChildHandle, how_it_ended};
use crate::transport::Bundle;
use crate::{Error, Result};

/// Python program of the engine.
const SCRIPT: &str = include_str!("ray.py");

/// Time that the engine has to end what it started on Ray.
const PATIENCE: Duration = Duration::from_secs(15);

/// Time that an actor has to end after its socket is closed.
const ACTOR_PATIENCE: Duration = Duration::from_secs(10);

/// Engine of this process, if one is in use.
static SHARED: Mutex<Weak<RayEngine>> = Mutex::new(Weak::new());

/// How the child process of an actor ended.
#[derive(Debug)]
enum End {
    /// Exit code, or the negative number of the signal that ended the child.
    Code(i32),
    /// A complete sentence that says why the child ended.
    Reason(String),
}

/// One message from the engine, a line of JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    ready: bool,
    pool: Option<u64>,
    life: Option<u64>,
    failed: Option<String>,
    code: Option<i32>,
    reason: Option<String>,
    refused: Option<String>,
    resources: Option<Bundle>,
    node: Option<String>,
}

/// Channels of the callers that wait for messages from the engine, and the state that it reported.
#[derive(Debug, Default)]
struct Waiting {
    pools: HashMap<u64, Sender<Option<String>>>,
    lives: HashMap<u64, Sender<End>>,
    /// Whether the engine has ended.
    gone: bool,
    /// Resources of the cluster; `None` if the cluster was started for this run on this machine.
    resources: Option<Bundle>,
    /// Reason why no trial can run on this cluster.
    refused: Option<String>,
}

/// Handle of the Python process that talks to Ray.
#[derive(Debug)]
pub struct RayEngine {
    control: Mutex<UnixStream>,
    waiting: Arc<Mutex<Waiting>>,
    process: Mutex<Child>,
    reader: Option<JoinHandle<()>>,
    last: Mutex<u64>,
    /// Address of this machine in the cluster.
    node: String,
}

impl RayEngine {
    /// Returns the engine of this process, or starts one. `setting` names the setting that asks for Ray in error
    /// messages.
    ///
    /// # Errors
    /// Returns [`Error::Config`] with the reason if no engine can be started.
    pub fn shared(setting: &str) -> Result<Arc<Self>> {
        let mut shared = lock(&SHARED);
        if let Some(engine) = shared.upgrade().filter(|engine| engine.alive(setting).is_ok()) {
            return Ok(engine);
        }
        let engine = Arc::new(Self::start_python(setting)?);
        *shared = Arc::downgrade(&engine);
        Ok(engine)
    }

    /// Starts the Python process and waits until it has reached the cluster.
    fn start_python(setting: &str) -> Result<Self> {
        let python = std::env::var("PAVLOV_PYTHON").ok().filter(|python| !python.is_empty());
        let python = python.unwrap_or_else(|| "python3".into());
        let (own, theirs) = UnixStream::pair().map_err(|e| lost(e.to_string()))?;
        let mut command = Command::new(&python);
        // Ctrl-C must reach only the run, which then ends the engine.
        command.args(["-u", "-c", SCRIPT]).stdin(OwnedFd::from(theirs)).process_group(0);
        let process = command.spawn().map_err(|error| {
            refused(
                setting,
                &format!("the interpreter {python:?} cannot be started ({error}); name one by PAVLOV_PYTHON"),
            )
        })?;
        drop(command);
        let mut from = BufReader::new(own.try_clone().map_err(|e| lost(e.to_string()))?);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let mut engine = Self {
            control: Mutex::new(own),
            waiting: Arc::clone(&waiting),
            process: Mutex::new(process),
            reader: None,
            last: Mutex::new(0),
            node: String::new(),
        };
        match next(&mut from) {
            Some(Said { ready: true, resources, node, .. }) => {
                lock(&waiting).resources = resources;
                engine.node = node.unwrap_or_default();
            }
            Some(Said { failed: Some(reason), .. }) => return Err(refused(setting, &reason)),
            _ => {
                return Err(refused(
                    setting,
                    &format!("the interpreter {python:?} ended before it reached Ray; what it said is above"),
                ));
            }
        }
        let listen = move || {
            while let Some(said) = next(&mut from) {
                lock(&waiting).hear(said);
            }
            let mut waiting = lock(&waiting);
            waiting.gone = true;
            // Dropping their senders wakes up all waiting callers.
            waiting.pools.clear();
            waiting.lives.clear();
        };
        let reader = thread::Builder::new().name("from-ray".into()).spawn(listen);
        engine.reader = Some(reader.map_err(|e| lost(e.to_string()))?);
        Ok(engine)
    }

    /// Checks that the engine still runs and that the cluster can run what `setting` asks for.
    ///
    /// # Errors
    /// Fails if not, with a way to fix it.
    pub fn alive(&self, setting: &str) -> Result<()> {
        let mut refusal = None;
        self.with_waiting(|waiting| refusal.clone_from(&waiting.refused))?;
        refusal.map_or(Ok(()), |reason| Err(refused(setting, &reason)))
    }

    /// Returns the address of this machine in the cluster.
    pub fn node_address(&self) -> &str {
        &self.node
    }

    /// Returns the current resources of the cluster; `None` if it was started for this run and has those of this
    /// machine.
    pub fn resources(&self) -> Option<Bundle> {
        lock(&self.waiting).resources.clone()
    }

    /// Calls `f` with the waiting callers; fails if the engine has ended.
    fn with_waiting(&self, f: impl FnOnce(&mut Waiting)) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.gone {
            return Err(lost(
                "the process that reaches it has ended, by hand or because the head of the cluster is gone; checkpoints stay \
                 where they are: `pavlov resume` goes on from the newest, with Ray again or with `--workers threads`, and \
                 `pavlov tune --resume` with a sweep",
            ));
        }
        f(&mut waiting);
        Ok(())
    }

    /// Returns a new number for a pool or an actor.
    fn number(&self) -> u64 {
        let mut last = lock(&self.last);
        *last += 1;
        *last
    }

    /// Reserves resources for all workers of a pool and returns the pool's number. `setting` names the setting that
    /// asks for them.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the resources are not available in time, and fails if the engine has ended.
    pub fn reserve(&self, setting: &str, what: Value) -> Result<u64> {
        let number = self.number();
        let (sender, answer) = bounded(1);
        self.with_waiting(|waiting| _ = waiting.pools.insert(number, sender))?;
        self.say("reserve", ("pool", number), what, None);
        match answer.recv() {
            Ok(None) => Ok(number),
            Ok(Some(reason)) => Err(refused(setting, &reason)),
            Err(_) => self.alive(setting).map(|()| number),
        }
    }

    /// Releases the resources of a pool.
    pub fn release(&self, pool: u64) {
        self.say("release", ("pool", pool), Value::Null, None);
    }

    /// Starts an actor, and returns it with a socket to its child process.
    ///
    /// # Errors
    /// Fails if the engine has ended, or no socket can be made.
    pub fn start(self: &Arc<Self>, what: Value) -> Result<(RayActor, UnixStream)> {
        let number = self.number();
        let (sender, end) = bounded(1);
        let (own, theirs) = UnixStream::pair().map_err(|e| lost(e.to_string()))?;
        self.with_waiting(|waiting| _ = waiting.lives.insert(number, sender))?;
        self.say("start", ("life", number), what, Some(theirs));
        Ok((RayActor { engine: Arc::clone(self), life: number, end }, own))
    }

    /// Asks the engine to kill an actor's child.
    fn kill(&self, life: u64) {
        self.say("kill", ("life", life), Value::Null, None);
    }

    /// Sends a message to the engine. If the engine has ended, the message is lost; waiting callers are woken up by the
    /// reader thread.
    fn say(&self, operation: &str, (of, number): (&str, u64), mut what: Value, socket: Option<UnixStream>) {
        if what.is_null() {
            what = Value::Object(Default::default());
        }
        what["op"] = operation.into();
        what[of] = number.into();
        let line = format!("{what}\n").into_bytes();
        let mut control = lock(&self.control);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let sockets = socket.as_ref().map(AsFd::as_fd);
        if let Some(socket) = &sockets {
            beside.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(socket)));
        }
        let sent = sendmsg(&*control, &[IoSlice::new(&line)], &mut beside, SendFlags::empty());
        // `sendmsg` may accept only a part of the line.
        let _ = sent.map_err(std::io::Error::from).and_then(|sent| control.write_all(&line[sent..]));
    }
}

impl Waiting {
    /// Passes a message from the engine to the caller that waits for it.
    fn hear(&mut self, said: Said) {
        self.resources = said.resources.or(self.resources.take());
        // The caller may have stopped waiting, so a failed send is ignored.
        if let Some(waiting) = said.pool.and_then(|pool| self.pools.remove(&pool)) {
            let _ = waiting.send(said.failed);
        } else if let Some(waiting) = said.life.and_then(|life| self.lives.remove(&life)) {
            let reason = said.refused.clone().or(said.reason).unwrap_or_default();
            self.refused = said.refused.or(self.refused.take());
            let _ = waiting.send(said.code.map_or(End::Reason(reason), End::Code));
        }
    }
}

impl Drop for RayEngine {
    fn drop(&mut self) {
        let _ = lock(&self.control).shutdown(Shutdown::Write);
        let deadline = Instant::now() + PATIENCE;
        let mut process = lock(&self.process);
        while Instant::now() < deadline {
            if !matches!(process.try_wait(), Ok(None)) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        // An error means that the process has ended already.
        let _ = process.kill();
        let _ = process.wait();
        let _ = lock(&self.control).shutdown(Shutdown::Both);
        self.reader.take().map(JoinHandle::join);
    }
}

/// Reads the next message; `None` at the end or if it is not valid.
fn next(from: &mut impl BufRead) -> Option<Said> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|&read| read > 0)?;
    serde_json::from_str(&line).ok()
}

/// Makes the error for a `setting` whose value is `"ray"`.
fn refused(setting: &str, reason: &str) -> Error {
    Error::config(setting, "\"ray\"", reason)
}

/// Makes the error for a lost connection to Ray.
fn lost(reason: impl std::fmt::Display) -> Error {
    Error::other(format!("Ray: {reason}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A Ray actor that runs a child of this executable.
#[derive(Debug)]
pub struct RayActor {
    engine: Arc<RayEngine>,
    life: u64,
    end: Receiver<End>,
}

impl ChildHandle for RayActor {
    fn kill(&mut self) {
        self.engine.kill(self.life);
    }

    fn wait(&mut self) -> String {
        let end = self.end.recv_timeout(ACTOR_PATIENCE).or_else(|error| {
            self.kill();
            if error == RecvTimeoutError::Timeout {
                self.end.recv_timeout(ACTOR_PATIENCE)
            } else {
                Err(error)
            }
        });
        match end {
            Ok(End::Code(code)) => {
                let raw = if code < 0 { -code } else { (code & 0xff) << 8 };
                format!("its process {}", how_it_ended(ExitStatus::from_raw(raw), ""))
            }
            Ok(End::Reason(reason)) => reason,
            Err(_) => "its actor does not answer any more".to_owned(),
        }
    }
}
