//! The life of a trial: the states that it goes through, and the actor that trains it. `docs/life-of-a-trial.md` draws them.

use std::path::PathBuf;

use super::checkpoints::Checkpoints;
use crate::base::{Config, Resources, TrialStatus};
use crate::executor::ActorId;
use crate::schedulers::PolicyStep;

/// State of a trial. Only [`Sweep`](super::sweep::Sweep) changes it, by the events of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The trial waits for resources. If it was paused and unpaused, its actor may still be saving.
    Pending,
    /// The trial has resources and trains.
    Running,
    /// The trial waits for the scheduler to unpause it. Its actor may still be saving.
    Paused,
    /// The trial has been stopped or has ended by itself. Its last checkpoint may not be there yet.
    Ending,
    /// The trial has ended, and all its files are written.
    Completed,
    /// The trial failed more often than allowed.
    Failed {
        /// Whether the trial had been stopped before, so that only its last checkpoint is missing.
        had_ended: bool,
    },
}

impl State {
    /// Returns the status that schedulers, callbacks and tables see.
    pub(super) fn status(self) -> TrialStatus {
        match self {
            State::Pending => TrialStatus::Pending,
            State::Running => TrialStatus::Running,
            State::Paused => TrialStatus::Paused,
            State::Ending | State::Completed => TrialStatus::Terminated,
            State::Failed { .. } => TrialStatus::Error,
        }
    }

    /// Whether nothing is left to do for the trial.
    pub(super) fn is_over(self) -> bool {
        matches!(self, State::Completed | State::Failed { .. })
    }
}

/// The actor that works for a trial. It exists only in memory; a restored sweep begins without actors.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) id: ActorId,
    /// Indices of the GPUs that the actor may use.
    pub(super) gpus: Vec<usize>,
    /// Progress of the trial in this actor; `None` while the actor starts it.
    pub(super) progress: Option<Progress>,
    /// Checkpoint of another trial from which the actor is starting: index of that trial, and iteration.
    pub(super) holds: Option<(usize, u64)>,
}

/// How far an actor has trained its trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) iteration: u64,
    /// Whether the last result asked for a checkpoint.
    pub(super) should_checkpoint: bool,
    /// Score of a checkpoint at this iteration.
    pub(super) score: Option<f64>,
}

/// State of another trial, and new settings, that a trial takes over.
#[derive(Clone, Debug)]
pub(super) struct Exploit {
    pub(super) source: String,
    /// The trial's own settings and tag, restored if the source has no state to take over.
    pub(super) own: (Config, String),
    pub(super) log: Option<PolicyStep>,
}

/// What the driver knows of a trial in addition to [`Trial`](crate::Trial).
#[derive(Debug)]
pub(super) struct TrialRun {
    pub(super) dir: PathBuf,
    pub(super) drawn: Config,
    /// Resources that the trainable asked for; a scheduler may have assigned others.
    pub(super) requested: Resources,
    pub(super) state: State,
    pub(super) actor: Option<Actor>,
    /// Iteration of the last result that was decided about.
    pub(super) seen: u64,
    /// Whether the scheduler ordered a checkpoint at iteration `seen` for other trials to start from.
    pub(super) save: bool,
    /// What the trial takes over from another one when it starts next.
    pub(super) exploit: Option<Exploit>,
    pub(super) checkpoints: Checkpoints,
    pub(super) failures: u64,
    pub(super) error: Option<String>,
    /// Number of results.
    pub(super) results: usize,
    /// Settings with which results were trained before a scheduler changed them, oldest first, each with the number of
    /// results until then.
    pub(super) earlier_configs: Vec<(usize, Config)>,
}

impl TrialRun {
    pub(super) fn new(dir: PathBuf, drawn: Config, requested: Resources) -> Self {
        TrialRun {
            dir,
            drawn,
            requested,
            state: State::Pending,
            actor: None,
            seen: 0,
            save: false,
            exploit: None,
            checkpoints: Checkpoints::default(),
            failures: 0,
            error: None,
            results: 0,
            earlier_configs: Vec::new(),
        }
    }

    /// Whether an actor is starting the trial from one of its checkpoints.
    pub(super) fn is_starting(&self) -> bool {
        self.actor.as_ref().is_some_and(|actor| actor.progress.is_none())
    }

    /// Returns how far the trial's actor has trained it; `None` without an actor, or while it starts.
    pub(super) fn progress(&self) -> Option<Progress> {
        self.actor.as_ref()?.progress
    }
}
