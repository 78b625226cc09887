//! Runs the trials of a sweep: each training trial has one actor with its own [`Driver`](crate::Driver).
//!
//! The sweep sends [`Request`]s to an actor and receives [`Report`]s through one channel. Nothing else is shared, so an
//! actor behind [`Executor`] can be a thread, a process, or a process on another machine.

use std::path::PathBuf;

use crossbeam_channel::Receiver;
use serde::{Deserialize, Serialize};

use crate::base::{Bundle, Config, Metrics, Resources, Result};

mod actor;
mod processes;

pub(crate) use actor::ThreadExecutor;
pub(crate) use processes::ProcessExecutor;
pub use processes::{child_main, rollout_main};

/// Number of an actor. No number is used twice in a sweep, so late reports of an ended actor can be recognized.
pub(crate) type ActorId = u64;

/// Request of the sweep to an actor, which answers it with one report before it gets the next.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Starts a trial; an actor that ran another trial before tries `reset_config`.
    Start(Box<Start>),
    /// Runs one iteration of the trial.
    Train,
    /// Writes a checkpoint to the trial's directory.
    Save,
    /// Cleans up and ends the actor.
    Stop,
}

/// Everything that an actor needs to start a trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) trial_id: String,
    pub(crate) trial_name: String,
    pub(crate) config: Config,
    /// Settings that the searcher sampled, for TensorBoard's HPARAMS tab.
    pub(crate) hparams: Config,
    pub(crate) resources: Resources,
    /// Indices of the GPUs that the trial may use.
    pub(crate) gpus: Vec<usize>,
    pub(crate) logdir: PathBuf,
    /// Checkpoint to continue from; one of another trial is first copied into `logdir`.
    pub(crate) from: Option<PathBuf>,
    /// Whether the actor runs the first iteration without another request. It then reports the result in place of
    /// [`Started`](Report::Started).
    pub(crate) trains_at_once: bool,
    /// Whether to write `result.json` and the other log files.
    pub(crate) log_results: bool,
}

/// Answer of an actor to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(crate) enum Report {
    /// The actor runs the trial now, which is at `iteration`. `bytes` is the size of the checkpoint in the trial's
    /// directory from which the trial started; 0 without a checkpoint.
    Started { iteration: u64, bytes: u64 },
    /// The trainable does not support `reset_config`; the actor has ended.
    CannotReset,
    /// One result without its `config`; `iteration` is the driver's count of the trial's results. `is_last`: there are no more
    /// results, and [`Ended`](Report::Ended) is not reported.
    Trained { iteration: u64, result: Metrics, is_last: bool },
    /// The trial has no more results; its last one stays valid.
    Ended,
    /// A checkpoint was written, complete and durable.
    Saved(SavedCheckpoint),
    /// The actor has ended as requested; `error` is the error of its clean-up.
    Stopped { error: Option<String> },
    /// The request failed; the actor has ended.
    Failed { message: String },
}

/// A checkpoint in the directory of its trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedCheckpoint {
    pub(crate) iteration: u64,
    pub(crate) bytes: u64,
}

/// Runs the actors of a sweep.
pub(crate) trait Executor {
    /// Starts a new actor with the request `start`. A failure to start it may also arrive as a report.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread or process.
    fn spawn(&mut self, actor: ActorId, start: Start) -> Result<()>;

    /// Sends a request to an actor that has answered the one before. If the actor has ended meanwhile, a report says
    /// that it failed.
    fn send(&mut self, actor: ActorId, request: Request);

    /// Drops an actor that has ended and whose last report was received.
    fn forget(&mut self, actor: ActorId);

    /// Returns the channel with the reports of all actors.
    fn reports(&self) -> &Receiver<(ActorId, Report)>;

    /// Returns the resources that all trials share now; `None` stands for those of this machine.
    fn total_resources(&self) -> Option<Bundle> {
        None
    }

    /// Whether trials run as Ray actors; workers that a trial starts then run on the same cluster.
    fn is_on_ray(&self) -> bool {
        false
    }

    /// Checks, after an actor has failed, whether actors can run at all.
    ///
    /// # Errors
    /// Fails if no actor can run, which is not the fault of a trial.
    fn alive(&self) -> Result<()> {
        Ok(())
    }
}
