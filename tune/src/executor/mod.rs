//! Where trials run: one actor per trial that trains, each with a [`Driver`](crate::Driver) of its own.
//!
//! The sweep sends [`Request`]s to an actor and gets [`Report`]s back through one channel. Nothing else is shared, so a
//! thread, a process, or a machine elsewhere can stand behind [`Executor`].

use std::path::PathBuf;

use crossbeam_channel::Receiver;
use serde::{Deserialize, Serialize};

use crate::{Bundle, Config, Metrics, Resources, Result};

mod actor;
mod child;
mod lines;
mod local;
mod meeting;
mod processes;
mod ray;
mod rollout;
mod threads;
mod worker;
mod worker_group;

pub(crate) use actor::in_full;
pub use actor::panic_text;
pub use child::{Body, ChildCommand, experiment_of_trial};
pub use meeting::{Secret, listen, listen_here, meet};
pub(crate) use processes::ProcessExecutor;
pub use processes::{child_main, rollout_main};
pub(crate) use processes::{has_rollout_workers, is_known_to_children};
pub use ray::{RayActor, RayEngine};
pub use rollout::{RolloutProcess, rollout_command};
pub(crate) use threads::ThreadExecutor;
pub(crate) use worker::work;
pub use worker_group::{WorkerGroup, WorkerGroupSetup, WorkerPlace};

/// The number of an actor; never used twice in a sweep, so what a dead one still says is told apart.
pub(crate) type ActorId = u64;

/// What an actor is asked. It answers each with one report before the next.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Become this trial; an actor that was another one tries `reset_config`.
    Start(Box<Start>),
    /// One iteration.
    Train,
    /// A checkpoint in the trial's directory.
    Save,
    /// Clean up and end.
    Stop,
}

/// Everything about a trial that its actor must know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) trial_id: String,
    pub(crate) trial_name: String,
    pub(crate) config: Config,
    /// The drawn settings, for TensorBoard's hparams tab.
    pub(crate) hparams: Config,
    pub(crate) resources: Resources,
    /// GPUs by index.
    pub(crate) gpus: Vec<usize>,
    pub(crate) logdir: PathBuf,
    /// Continues from this checkpoint. One of another trial is copied into `logdir` first.
    pub(crate) from: Option<PathBuf>,
    /// Writes `result.json` and its companions.
    pub(crate) log_results: bool,
}

/// What an actor answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(crate) enum Report {
    /// It is the trial now, and stands at this iteration; the checkpoint in its directory that it started from has so
    /// many bytes.
    Started { iteration: u64, bytes: u64 },
    /// The trainable cannot `reset_config`; the actor has ended.
    CannotReset,
    /// One result, the `iteration`th of the trial by the driver's own count, without its `config`.
    Trained { iteration: u64, result: Metrics },
    /// There will be no more results; the last one stands.
    Ended,
    /// A checkpoint, whole and durable.
    Saved(SavedCheckpoint),
    /// The actor has ended; `error` of its clean-up.
    Stopped { error: Option<String> },
    /// The request failed; the actor has ended.
    Failed { message: String },
}

/// A checkpoint in its trial's directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedCheckpoint {
    pub(crate) iteration: u64,
    pub(crate) bytes: u64,
}

/// Runs actors.
pub(crate) trait Executor {
    /// A new actor, which begins with `start`. That it cannot be made may also come as a report.
    ///
    /// # Errors
    /// Fails if the system gives no thread or process.
    fn spawn(&mut self, actor: ActorId, start: Start) -> Result<()>;

    /// Sends a request to an actor that has answered the one before. One that has ended meanwhile reports that it failed.
    fn send(&mut self, actor: ActorId, request: Request);

    /// The actor has ended and its last report was heard.
    fn forget(&mut self, actor: ActorId);

    /// Where all actors report.
    fn reports(&self) -> &Receiver<(ActorId, Report)>;

    /// What trials share now; `None`: what this machine has.
    fn total_resources(&self) -> Option<Bundle> {
        None
    }

    /// Whether trials are on a Ray cluster, which then has the actors of their own, too.
    fn is_on_ray(&self) -> bool {
        false
    }

    /// Whether an actor could run; asked when one has failed.
    ///
    /// # Errors
    /// Fails if none could, which is no fault of the trial.
    fn alive(&self) -> Result<()> {
        Ok(())
    }
}
