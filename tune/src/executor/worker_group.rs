//! The worker processes of one trial, from the trial's side.

use std::env;
use std::fs;
use std::io::{BufReader, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde_json::json;

use super::child::{self, Body, ChildCommand, WORKER};
use super::is_known_to_children;
use super::lines::lines;
use super::local::LocalProcess;
use super::meeting::Secret;
use super::ray::RayEngine;
use super::worker::{MOST_WORKERS, Order, WorkerMessage, WorkerSetup, send_line, send_sockets};
use crate::session::{Checkpoint, Session};
use crate::{Bundle, Error, Metrics, PlacementStrategy, Result};

/// How long a worker whose socket is closed may take to be gone, and one that was told to stop to stop.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says how many seconds Ray may take to find room for all workers, in Ray Train too.
const ROOM: &str = "TRAIN_PLACEMENT_GROUP_TIMEOUT_S";

/// How long the reason is waited for when all that is known is that a worker was missed by another.
const REASON: Duration = Duration::from_secs(5);

/// What workers are started with.
#[derive(Debug)]
pub struct WorkerGroupSetup<'a> {
    /// The name of the trainable, as `child_main` knows it.
    pub name: String,
    /// How many workers there are, and where.
    pub place: WorkerPlace,
    /// How many cores each worker has.
    pub num_threads: usize,
    /// The checkpoint that they go on from.
    pub checkpoint: Option<&'a Checkpoint>,
}

/// Where workers run.
#[derive(Debug)]
pub enum WorkerPlace {
    /// They are processes of this machine.
    Here {
        /// The sockets of each worker to the others.
        sockets: Vec<Vec<OwnedFd>>,
        /// The `CUDA_VISIBLE_DEVICES` of each worker; `None`: as in the trial.
        gpus: Option<Vec<String>>,
    },
    /// They are actors of a Ray cluster.
    Ray {
        /// So many.
        number: usize,
        /// What each needs.
        resources: Bundle,
        /// On how many machines they are.
        strategy: PlacementStrategy,
    },
}

impl WorkerPlace {
    fn number(&self) -> usize {
        match self {
            WorkerPlace::Here { sockets, .. } => sockets.len(),
            WorkerPlace::Ray { number, .. } => *number,
        }
    }
}

/// Processes that report together. They end with it.
#[derive(Debug)]
pub struct WorkerGroup {
    workers: Vec<Worker>,
    /// By rank; nothing once the socket of a worker is closed.
    messages: Receiver<(usize, Option<WorkerMessage>)>,
    /// Rounds of reports so far.
    reports: u64,
    /// The cluster, and the room there that this group has.
    ray: Option<(Arc<RayEngine>, u64)>,
}

#[derive(Debug)]
struct Worker {
    socket: UnixStream,
    body: Box<dyn Body>,
    has_ended: bool,
}

impl WorkerGroup {
    /// Starts the processes and tells each what it is.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `child_main` was not called with this trainable, whose processes would run the
    /// whole program again, if there are too many workers, or if Ray cannot be reached or has no room for all of them.
    /// Fails if a process cannot be started, or if the checkpoint cannot be found.
    pub fn start(setup: WorkerGroupSetup<'_>, session: &Session) -> Result<Self> {
        let num_workers = setup.place.number();
        if !is_known_to_children(&setup.name) {
            let rule = format!(
                "workers are processes: `main` must first call `child_main` with the trainable `{}`",
                setup.name
            );
            return Err(Error::config("num_workers", num_workers, rule));
        }
        let (message, messages) = unbounded();
        let mut group =
            WorkerGroup { workers: Vec::with_capacity(num_workers), messages, reports: 0, ray: None };
        let mut secret: Option<Secret> = None;
        if let WorkerPlace::Ray { number, resources, strategy } = &setup.place {
            let engine = RayEngine::shared("scaling_config.workers")?;
            let what = json!({
                "workers": number, "resources": resources, "strategy": strategy, "labels": null,
                "patience": patience()?, "longer": format!("the variable {ROOM}"),
                "less": "`scaling_config.resources_per_worker`",
            });
            let room = engine.reserve("scaling_config.workers", what)?;
            group.ray = Some((engine, room));
            secret = Some(rand::random());
        } else if num_workers > MOST_WORKERS {
            let rule = format!("on one machine there are at most {MOST_WORKERS}");
            return Err(Error::config("num_workers", num_workers, rule));
        }
        for rank in 0..num_workers {
            let (body, own) = group.spawn(rank, &setup, session)?;
            let incoming = own.try_clone().map_err(Error::other)?;
            group.workers.push(Worker { socket: own, body, has_ended: false });
            let message = message.clone();
            thread::Builder::new()
                .name(format!("worker {rank} of {}", session.context.trial_id))
                .spawn(move || listen(rank, incoming, &message))
                .map_err(Error::other)?;
            let worker_setup = WorkerSetup {
                rank,
                trial_id: session.context.trial_id.clone(),
                trial_name: session.context.trial_name.clone(),
                trial_resources: session.context.trial_resources.clone(),
                logdir: session.context.logdir.clone(),
                config: session.config.clone(),
                checkpoint: setup.checkpoint.map(Checkpoint::with_absolute_paths).transpose()?,
                secret,
            };
            let socket = &group.workers[rank].socket;
            let peers = match &setup.place {
                WorkerPlace::Here { sockets, .. } => send_sockets(socket, &sockets[rank]),
                WorkerPlace::Ray { .. } => Ok(()),
            };
            // One that is gone already is heard of in the first round.
            let _ = peers.and_then(|()| send_line(socket, &worker_setup));
        }
        if group.ray.is_some() {
            group.introduce()?;
        }
        Ok(group)
    }

    fn spawn(
        &self,
        rank: usize,
        setup: &WorkerGroupSetup<'_>,
        session: &Session,
    ) -> Result<(Box<dyn Body>, UnixStream)> {
        if let (Some((engine, room)), WorkerPlace::Ray { resources, .. }) = (&self.ray, &setup.place) {
            let logdir = &session.context.logdir;
            // Whether a machine sees the directory is seen by this.
            fs::create_dir_all(logdir).map_err(Error::io("create", logdir))?;
            let command = child::command_anywhere(WORKER, &setup.name, setup.num_threads)?;
            let (actor, socket) = engine.start(json!({
                "pool": room, "worker": rank, "resources": resources, "labels": null, "trial": logdir,
                "program": ChildCommand::of(&command),
            }))?;
            return Ok((Box::new(actor), socket));
        }
        let (own, theirs) = UnixStream::pair().map_err(Error::other)?;
        let mut command = child::command(WORKER, &setup.name, theirs, setup.num_threads)?;
        if let WorkerPlace::Here { gpus: Some(gpus), .. } = &setup.place {
            command.env("CUDA_VISIBLE_DEVICES", &gpus[rank]);
        }
        let process = command.spawn().map_err(Error::io("start", Path::new("this executable")))?;
        Ok((Box::new(LocalProcess::new(process, "", PATIENCE)), own))
    }

    /// Tells all workers where each of them listens.
    fn introduce(&mut self) -> Result<()> {
        let mut addresses: Vec<Option<SocketAddr>> = vec![None; self.workers.len()];
        while addresses.iter().any(Option::is_none) {
            let Ok((rank, message)) = self.messages.recv() else { break };
            let message = match message {
                Some(WorkerMessage::Listens(address)) => {
                    addresses[rank] = Some(address);
                    continue;
                }
                Some(WorkerMessage::Failed { message, .. }) => message,
                _ => self.workers[rank].body.wait(),
            };
            return Err(Error::WorkerFailed { rank, message });
        }
        self.order(&Order::Meet(addresses.into_iter().flatten().collect()));
        Ok(())
    }

    /// Waits until each worker has reported, or each has returned: the report of worker 0, the others waiting as well, or
    /// nothing.
    ///
    /// # Errors
    /// Returns [`Error::WorkerFailed`] if a worker failed or died, or returned while others go on.
    pub fn next_report(&mut self) -> Result<Option<(Metrics, Option<Checkpoint>)>> {
        let mut messages: Vec<Option<WorkerMessage>> = self.workers.iter().map(|_| None).collect();
        let mut deadline = None;
        while messages.iter().any(Option::is_none) {
            let heard = match deadline {
                None => self.messages.recv().ok(),
                Some(deadline) => self.messages.recv_deadline(deadline).ok(),
            };
            let Some((rank, message)) = heard else { break };
            let message = match message {
                None if self.workers[rank].has_ended => continue,
                None => {
                    let message = self.workers[rank].body.wait();
                    // Without the engine no worker on Ray comes back.
                    self.ray.as_ref().map_or(Ok(()), |(engine, _)| engine.alive("workers"))?;
                    return Err(Error::WorkerFailed { rank, message });
                }
                Some(WorkerMessage::Failed { message, is_lost: false }) => {
                    return Err(Error::WorkerFailed { rank, message });
                }
                Some(message) => message,
            };
            if !matches!(message, WorkerMessage::Report(..)) {
                self.workers[rank].has_ended = true;
            }
            if matches!(message, WorkerMessage::Failed { .. }) {
                deadline.get_or_insert_with(|| Instant::now() + REASON);
            }
            messages[rank] = Some(message);
        }
        self.agree(messages)
    }

    /// What the messages of all workers come to.
    fn agree(
        &mut self,
        mut messages: Vec<Option<WorkerMessage>>,
    ) -> Result<Option<(Metrics, Option<Checkpoint>)>> {
        if messages.iter().all(|message| matches!(message, Some(WorkerMessage::Ended))) {
            return Ok(None);
        }
        if messages.iter().all(|message| matches!(message, Some(WorkerMessage::Report(..)))) {
            self.reports += 1;
            if let Some(WorkerMessage::Report(metrics, checkpoint)) = messages.swap_remove(0) {
                return Ok(Some((metrics, checkpoint)));
            }
        }
        let ended = messages.iter().position(|message| matches!(message, Some(WorkerMessage::Ended)));
        if let Some(rank) = ended {
            let message = format!(
                "it returned after {} reports while others went on: all workers report equally often, and make the \
                 same collective calls",
                self.reports
            );
            return Err(Error::WorkerFailed { rank, message });
        }
        let failed = messages.into_iter().enumerate().find_map(|(rank, message)| match message {
            Some(WorkerMessage::Failed { message, .. }) => Some((rank, message)),
            _ => None,
        });
        let (rank, message) = failed.unwrap_or((0, "workers are gone".into()));
        Err(Error::WorkerFailed { rank, message })
    }

    /// Lets all workers return from their report.
    pub fn go_on(&self) {
        self.order(&Order::GoOn);
    }

    /// Their reports return [`Error::TrialStopped`]; those that do not end with that are ended.
    pub fn stop(mut self) {
        self.order(&Order::Stop);
        let deadline = Instant::now() + PATIENCE;
        while self.workers.iter().any(|worker| !worker.has_ended) {
            let Ok((rank, message)) = self.messages.recv_deadline(deadline) else { break };
            self.workers[rank].has_ended |= !matches!(message, Some(WorkerMessage::Report(..)));
        }
    }

    fn order(&self, order: &Order) {
        for worker in &self.workers {
            // One that is gone is heard of in the next round.
            let _ = send_line(&worker.socket, order);
        }
    }
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            if !worker.has_ended {
                worker.body.kill();
            }
            let _ = worker.socket.shutdown(Shutdown::Both);
        }
        for worker in &mut self.workers {
            worker.body.wait();
        }
        if let Some((engine, room)) = &self.ray {
            engine.release(*room);
        }
    }
}

fn listen(rank: usize, incoming: UnixStream, messages: &Sender<(usize, Option<WorkerMessage>)>) {
    for line in lines(BufReader::new(incoming)) {
        let failed = |message| WorkerMessage::Failed { message, is_lost: false };
        let message = match line {
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                failed(format!("its process said what cannot be read: {error}"))
            }
            Err(_) => break,
            Ok(line) => serde_json::from_str(&line)
                .unwrap_or_else(|error| failed(format!("its process said `{line}`: {error}"))),
        };
        let _ = messages.send((rank, Some(message)));
    }
    let _ = messages.send((rank, None));
}

/// Seconds that Ray has to find room.
fn patience() -> Result<f64> {
    let Ok(text) = env::var(ROOM) else { return Ok(100.0) };
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| Error::config(ROOM, text, "it must be a number of seconds"))
}
