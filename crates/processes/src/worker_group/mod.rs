//! A group of data-parallel workers, as the process that started them handles it.

mod member;
mod messages;

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
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::child::{ChildCommand, ChildHandle};
use crate::lines::lines;
use crate::local::LocalProcess;
use crate::ray::RayEngine;
use crate::rendezvous::Secret;
use crate::role::{Role, is_known_to_children};
use crate::transport::{Bundle, PlacementStrategy};
use crate::{Error, Result};
use messages::{Instruction, MAX_WORKERS, MemberSetup, send_line, send_sockets};

pub use member::{GroupMember, MessageSender};
pub use messages::WorkerMessage;

/// Time that a worker has to end after its socket is closed, or after it was told to stop.
const PATIENCE: Duration = Duration::from_secs(1);

/// Environment variable, also used by Ray Train: seconds that Ray may take to find resources for all workers.
const ROOM: &str = "TRAIN_PLACEMENT_GROUP_TIMEOUT_S";

/// Time to wait for the original failure after a worker has only reported that another worker has ended.
const REASON: Duration = Duration::from_secs(5);

/// Arguments of [`WorkerGroup::start`].
#[derive(Debug)]
pub struct WorkerGroupSetup<'a, T> {
    /// Name that the workers serve; see [`serve_names`](crate::serve_names).
    pub name: &'a str,
    /// Number of workers, and where they run.
    pub place: WorkerPlace,
    /// Number of cores of each worker.
    pub num_threads: usize,
    /// Directory of the trial that the workers belong to. On Ray each machine looks whether it sees that directory.
    pub logdir: &'a Path,
    /// What each worker gets, beside its rank, as [`GroupMember::task`].
    pub task: T,
}

/// Place where the workers of a group run.
#[derive(Debug)]
pub enum WorkerPlace {
    /// The workers are processes on this machine.
    Here {
        /// For each worker, its sockets to the other workers.
        sockets: Vec<Vec<OwnedFd>>,
        /// `CUDA_VISIBLE_DEVICES` of each worker; `None` means that they inherit the trial's.
        gpus: Option<Vec<String>>,
    },
    /// The workers are actors of a Ray cluster.
    Ray {
        /// Number of workers.
        number: usize,
        /// Resources of each worker.
        resources: Bundle,
        /// Strategy by which the workers are distributed over the machines.
        strategy: PlacementStrategy,
    },
}

impl WorkerPlace {
    /// Returns the number of workers.
    fn number(&self) -> usize {
        match self {
            WorkerPlace::Here { sockets, .. } => sockets.len(),
            WorkerPlace::Ray { number, .. } => *number,
        }
    }
}

/// Worker processes that report in step with each other; `R` is the type of a report. They are ended when the group is
/// dropped.
#[derive(Debug)]
pub struct WorkerGroup<R> {
    workers: Vec<WorkerProcess>,
    /// Messages of the workers with their ranks; `None` means that the worker's socket was closed.
    messages: Receiver<(usize, Option<WorkerMessage<R>>)>,
    /// Number of rounds in which all workers have reported.
    reports: u64,
    /// Connection to Ray, and the number of the group's resource reservation there.
    ray: Option<(Arc<RayEngine>, u64)>,
}

/// A worker process and its socket.
#[derive(Debug)]
struct WorkerProcess {
    socket: UnixStream,
    body: Box<dyn ChildHandle>,
    has_ended: bool,
}

impl<R: DeserializeOwned + Send + 'static> WorkerGroup<R> {
    /// Starts the worker processes and sends each its task.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if children of this program do not know the name (the processes would run the whole
    /// program again), if there are too many workers, or if Ray cannot be reached or lacks the resources for all of
    /// them. Fails if a process cannot be started.
    pub fn start<T: Serialize>(setup: &WorkerGroupSetup<'_, T>) -> Result<Self> {
        let num_workers = setup.place.number();
        if !is_known_to_children(setup.name) {
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
        } else if num_workers > MAX_WORKERS {
            let rule = format!("on one machine there are at most {MAX_WORKERS}");
            return Err(Error::config("num_workers", num_workers, rule));
        }
        for rank in 0..num_workers {
            let (body, own) = group.spawn(rank, setup)?;
            let incoming = own.try_clone().map_err(Error::other)?;
            group.workers.push(WorkerProcess { socket: own, body, has_ended: false });
            let message = message.clone();
            thread::Builder::new()
                .name(format!("worker {rank} of {}", setup.name))
                .spawn(move || listen(rank, incoming, &message))
                .map_err(Error::other)?;
            let socket = &group.workers[rank].socket;
            let peers = match &setup.place {
                WorkerPlace::Here { sockets, .. } => send_sockets(socket, &sockets[rank]),
                WorkerPlace::Ray { .. } => Ok(()),
            };
            // If a worker has ended already, the first round of reports shows that.
            let _ = peers.and_then(|()| send_line(socket, &MemberSetup { rank, secret, task: &setup.task }));
        }
        if group.ray.is_some() {
            group.introduce()?;
        }
        Ok(group)
    }

    /// Starts the process of one worker and returns it with a socket to it.
    fn spawn<T>(
        &self,
        rank: usize,
        setup: &WorkerGroupSetup<'_, T>,
    ) -> Result<(Box<dyn ChildHandle>, UnixStream)> {
        let WorkerGroupSetup { name, num_threads, logdir, .. } = *setup;
        if let (Some((engine, room)), WorkerPlace::Ray { resources, .. }) = (&self.ray, &setup.place) {
            // Each machine checks for this directory to learn whether it shares the file system.
            fs::create_dir_all(logdir).map_err(Error::io("create", logdir))?;
            let command = Role::Worker.command_anywhere(name, num_threads)?;
            let (actor, socket) = engine.start(json!({
                "pool": room, "worker": rank, "resources": resources, "labels": null, "trial": logdir,
                "program": ChildCommand::of(&command),
            }))?;
            return Ok((Box::new(actor), socket));
        }
        let (own, theirs) = UnixStream::pair().map_err(Error::other)?;
        let mut command = Role::Worker.command(name, theirs, num_threads)?;
        if let WorkerPlace::Here { gpus: Some(gpus), .. } = &setup.place {
            command.env("CUDA_VISIBLE_DEVICES", &gpus[rank]);
        }
        let process = command.spawn().map_err(Error::io("start", Path::new("this executable")))?;
        Ok((Box::new(LocalProcess::new(process, "", PATIENCE)), own))
    }

    /// Collects the addresses on which the workers listen, and sends all of them to every worker.
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
        self.order(&Instruction::Meet(addresses.into_iter().flatten().collect()));
        Ok(())
    }

    /// Waits until every worker has reported, or every worker has returned.
    ///
    /// Returns the report of worker 0, while all workers wait in their reports for [`go_on`](Self::go_on); or `None` if
    /// they have returned.
    ///
    /// # Errors
    /// Returns [`Error::WorkerFailed`] if a worker failed or died, or returned while others still report.
    pub fn next_report(&mut self) -> Result<Option<R>> {
        let mut messages: Vec<Option<WorkerMessage<R>>> = self.workers.iter().map(|_| None).collect();
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
                    // If the engine has ended, all workers on Ray are lost, which is the real cause.
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

    /// Combines one message of each worker into the group's report, its end, or its failure.
    fn agree(&mut self, mut messages: Vec<Option<WorkerMessage<R>>>) -> Result<Option<R>> {
        if messages.iter().all(|message| matches!(message, Some(WorkerMessage::Ended))) {
            return Ok(None);
        }
        if messages.iter().all(|message| matches!(message, Some(WorkerMessage::Report(..)))) {
            self.reports += 1;
            if let Some(WorkerMessage::Report(report)) = messages.swap_remove(0) {
                return Ok(Some(report));
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

    /// Lets all workers return from their report and continue.
    pub fn go_on(&self) {
        self.order(&Instruction::GoOn);
    }

    /// Stops the workers: [`GroupMember::go_on`] is closed, and a worker that does not end then is killed.
    pub fn stop(mut self) {
        self.order(&Instruction::Stop);
        let deadline = Instant::now() + PATIENCE;
        while self.workers.iter().any(|worker| !worker.has_ended) {
            let Ok((rank, message)) = self.messages.recv_deadline(deadline) else { break };
            self.workers[rank].has_ended |= !matches!(message, Some(WorkerMessage::Report(..)));
        }
    }

    /// Sends an order to every worker.
    fn order(&self, order: &Instruction) {
        for worker in &self.workers {
            // If a worker has ended, the next round of reports shows that.
            let _ = send_line(&worker.socket, order);
        }
    }
}

impl<R> Drop for WorkerGroup<R> {
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

/// Forwards the messages of one worker, and `None` when its socket is closed.
fn listen<R: DeserializeOwned>(
    rank: usize,
    incoming: UnixStream,
    messages: &Sender<(usize, Option<WorkerMessage<R>>)>,
) {
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

/// Returns the number of seconds that Ray may take to find resources, 100 by default.
fn patience() -> Result<f64> {
    let Ok(text) = env::var(ROOM) else { return Ok(100.0) };
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| Error::config(ROOM, text, "it must be a number of seconds"))
}
