//! Data-parallel workers of a trial: processes that each run the trial's own function in a session which knows the worker's
//! rank, so settings, datasets and `setup` are made as in the trial.

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use crossbeam_channel::bounded;
use pavlov_processes::{GroupMember, WorkerGroup, WorkerGroupSetup, WorkerMessage, WorkerPlace, panic_text};
use serde::{Deserialize, Serialize};

use crate::base::{Config, Error, Metrics, Resources, Result, in_words};
use crate::functions::session::{self, Checkpoint, Message, Session};
use crate::trainable::TrialContext;

/// A worker's report: its metrics and its checkpoint.
type Reported = (Metrics, Option<Checkpoint>);

/// The trial that a worker belongs to.
#[derive(Debug, Serialize, Deserialize)]
struct WorkerTask {
    trial_id: String,
    trial_name: String,
    trial_resources: Option<Resources>,
    logdir: PathBuf,
    config: Config,
    checkpoint: Option<Checkpoint>,
}

impl Session {
    /// Starts workers that run the function of this trial, the trainable `name`, with `num_threads` cores each. They continue
    /// from `checkpoint`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if [`child_main`](crate::child_main) was not called with this trainable, if there are too many
    /// workers, or if Ray cannot be reached or lacks the resources for all of them. Fails if a process cannot be started, or
    /// if the checkpoint cannot be found.
    pub fn start_workers(
        &self,
        name: &str,
        place: WorkerPlace,
        num_threads: usize,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<WorkerGroup<Reported>> {
        let context = &self.context;
        let task = WorkerTask {
            trial_id: context.trial_id.clone(),
            trial_name: context.trial_name.clone(),
            trial_resources: context.trial_resources.clone(),
            logdir: context.logdir.clone(),
            config: self.config.clone(),
            checkpoint: checkpoint.map(Checkpoint::with_absolute_paths).transpose()?,
        };
        let setup = WorkerGroupSetup { name, place, num_threads, logdir: &context.logdir, task };
        Ok(WorkerGroup::start(&setup)?)
    }
}

/// Runs `function` as a worker of the trial at the other end of `socket`.
pub(crate) fn work(
    function: impl FnOnce(&Config) -> Result<Option<Metrics>> + Send + 'static,
    socket: UnixStream,
) -> Result<()> {
    let Some(member) = GroupMember::<WorkerTask>::join(socket)? else { return Ok(()) };
    let GroupMember { rank, peers, local_rank, node_rank, task, go_on, sender } = member;
    let (reports_in, reports) = bounded(1);
    let run = move || {
        let ends = reports_in.clone();
        let context = TrialContext {
            trial_id: task.trial_id,
            trial_name: task.trial_name,
            trial_resources: task.trial_resources,
            logdir: task.logdir,
        };
        session::enter(Session {
            context,
            config: task.config.clone(),
            reports: reports_in,
            go_on,
            checkpoint: task.checkpoint.into(),
            metadata: Config::new().into(),
            since: Instant::now().into(),
            worker: Some(session::Worker {
                rank,
                peers: RefCell::new(peers),
                local_rank,
                node_rank,
                before_report: RefCell::default(),
            }),
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| function(&task.config)));
        let outcome = outcome
            .unwrap_or_else(|panic| Err(Error::other(format!("it panicked: {}", panic_text(&*panic)))));
        let _ = ends.send(Message::End(outcome));
    };
    thread::Builder::new().name(format!("worker {rank}")).spawn(run).map_err(Error::other)?;
    for message in reports {
        let message: WorkerMessage<Reported> = match message {
            Message::Report(metrics, None) => WorkerMessage::Report((metrics, None)),
            Message::Report(metrics, Some(checkpoint)) => match checkpoint.with_absolute_paths() {
                Ok(checkpoint) => WorkerMessage::Report((metrics, Some(checkpoint))),
                Err(error) => failed(&error),
            },
            Message::End(Ok(_) | Err(Error::TrialStopped)) => WorkerMessage::Ended,
            Message::End(Err(error)) => failed(&error),
        };
        sender.send(&message)?;
        if !matches!(message, WorkerMessage::Report(..)) {
            break;
        }
    }
    Ok(())
}

/// The message of a worker whose function has failed.
fn failed(error: &Error) -> WorkerMessage<Reported> {
    WorkerMessage::Failed { message: in_words(error), is_lost: is_lost(error) }
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
