//! The process in Python through which Ray is reached, and what is said to it.
//!
//! One serves all that this process has on Ray, so that a run and its evaluation share a cluster. It ends with the last of
//! it, and with this process, however that ends: it reads the end of its standard input.

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

use super::child::{self, Body};
use crate::{Bundle, Error, Result};

const SCRIPT: &str = include_str!("ray.py");

/// How long the engine may take to end what it started on Ray.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long an actor whose socket is closed may take to be gone.
const ACTOR_PATIENCE: Duration = Duration::from_secs(10);

/// The engine of this process.
static SHARED: Mutex<Weak<RayEngine>> = Mutex::new(Weak::new());

/// How an actor's child ended.
#[derive(Debug)]
enum End {
    /// An exit code, or a signal below zero.
    Code(i32),
    /// The whole sentence.
    Reason(String),
}

/// A line that the engine says.
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

/// Who waits for what the engine says.
#[derive(Debug, Default)]
struct Waiting {
    pools: HashMap<u64, Sender<Option<String>>>,
    lives: HashMap<u64, Sender<End>>,
    /// The engine is gone.
    gone: bool,
    /// What the cluster has; `None`: it is one of this run's own.
    resources: Option<Bundle>,
    /// Why no trial can run on this cluster.
    refused: Option<String>,
}

/// The process in Python, as this process has it.
#[derive(Debug)]
pub struct RayEngine {
    control: Mutex<UnixStream>,
    waiting: Arc<Mutex<Waiting>>,
    process: Mutex<Child>,
    reader: Option<JoinHandle<()>>,
    last: Mutex<u64>,
    /// The address of this machine in the cluster.
    node: String,
}

impl RayEngine {
    /// The engine that this process has, or a new one; `setting` is the one that asks for it.
    ///
    /// # Errors
    /// Returns [`Error::Config`] with why there is none.
    pub fn shared(setting: &str) -> Result<Arc<Self>> {
        let mut shared = lock(&SHARED);
        if let Some(engine) = shared.upgrade().filter(|engine| engine.alive(setting).is_ok()) {
            return Ok(engine);
        }
        let engine = Arc::new(Self::start_python(setting)?);
        *shared = Arc::downgrade(&engine);
        Ok(engine)
    }

    fn start_python(setting: &str) -> Result<Self> {
        let python = std::env::var("PAVLOV_PYTHON").ok().filter(|python| !python.is_empty());
        let python = python.unwrap_or_else(|| "python3".into());
        let (own, theirs) = UnixStream::pair().map_err(|e| lost(e.to_string()))?;
        let mut command = Command::new(&python);
        // Ctrl-C is for the run, which then ends the engine.
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
            // Who waits learns of it.
            waiting.pools.clear();
            waiting.lives.clear();
        };
        let reader = thread::Builder::new().name("from-ray".into()).spawn(listen);
        engine.reader = Some(reader.map_err(|e| lost(e.to_string()))?);
        Ok(engine)
    }

    /// Whether the engine still runs, and what `setting` asks for can be on the cluster.
    ///
    /// # Errors
    /// Fails if it does not, with the way out.
    pub fn alive(&self, setting: &str) -> Result<()> {
        let mut refusal = None;
        self.with_waiting(|waiting| refusal.clone_from(&waiting.refused))?;
        refusal.map_or(Ok(()), |reason| Err(refused(setting, &reason)))
    }

    /// The address of this machine in the cluster.
    pub fn node_address(&self) -> &str {
        &self.node
    }

    /// What the cluster has now; `None`: it is one of this run's own, and has what this machine has.
    pub(super) fn resources(&self) -> Option<Bundle> {
        lock(&self.waiting).resources.clone()
    }

    /// Calls `f` if the engine still runs.
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

    fn number(&self) -> u64 {
        let mut last = lock(&self.last);
        *last += 1;
        *last
    }

    /// Asks for room for all workers of a pool, whose number it returns; `setting` is the one that asks for them.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if there is not enough in time, and fails if the engine is gone.
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

    /// Gives a pool's room back.
    pub fn release(&self, pool: u64) {
        self.say("release", ("pool", pool), Value::Null, None);
    }

    /// Starts an actor. The socket leads to its child.
    ///
    /// # Errors
    /// Fails if the engine is gone, or there is no socket.
    pub fn start(self: &Arc<Self>, what: Value) -> Result<(RayActor, UnixStream)> {
        let number = self.number();
        let (sender, end) = bounded(1);
        let (own, theirs) = UnixStream::pair().map_err(|e| lost(e.to_string()))?;
        self.with_waiting(|waiting| _ = waiting.lives.insert(number, sender))?;
        self.say("start", ("life", number), what, Some(theirs));
        Ok((RayActor { engine: Arc::clone(self), life: number, end }, own))
    }

    fn kill(&self, life: u64) {
        self.say("kill", ("life", life), Value::Null, None);
    }

    /// Says a line. An engine that is gone does not hear it; whoever waits learns that otherwise.
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
        // A socket of the kernel's may take less than everything at once.
        let _ = sent.map_err(std::io::Error::from).and_then(|sent| control.write_all(&line[sent..]));
    }
}

impl Waiting {
    fn hear(&mut self, said: Said) {
        self.resources = said.resources.or(self.resources.take());
        // Whoever asked may have gone.
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
        // One that is gone cannot be ended.
        let _ = process.kill();
        let _ = process.wait();
        let _ = lock(&self.control).shutdown(Shutdown::Both);
        self.reader.take().map(JoinHandle::join);
    }
}

fn next(from: &mut impl BufRead) -> Option<Said> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|&read| read > 0)?;
    serde_json::from_str(&line).ok()
}

fn refused(setting: &str, reason: &str) -> Error {
    Error::config(setting, "\"ray\"", reason)
}

fn lost(reason: impl std::fmt::Display) -> Error {
    Error::other(format!("Ray: {reason}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An actor with a child of this executable, as the engine knows it.
#[derive(Debug)]
pub struct RayActor {
    engine: Arc<RayEngine>,
    life: u64,
    end: Receiver<End>,
}

impl Body for RayActor {
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
                format!("its process {}", child::how_it_ended(ExitStatus::from_raw(raw), ""))
            }
            Ok(End::Reason(reason)) => reason,
            Err(_) => "its actor does not answer any more".to_owned(),
        }
    }
}
