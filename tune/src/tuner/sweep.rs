//! The state of a sweep, which is determined by its journal.
//!
//! Every change is a method here. It is called while the sweep runs and again, with the line read from the journal, on
//! restoring. The same calls bring the searcher, scheduler and stopper of a restored sweep to the same state.
//!
//! A trial that goes back to a checkpoint trains some results again. These are not reported again: the decisions about them
//! stand. The trial does its `next` action once it has reached the iteration `seen`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::checkpoints::Checkpoints;
use super::journal::Verdict;
use crate::executor::SavedCheckpoint;
use crate::schedulers::{Order, PolicyStep, TrialScheduler};
use crate::search::Searcher;
use crate::stoppers::Stopper;
use crate::{Config, Error, Metrics, Resources, Result, Trial, TrialStatus, metric};

/// Next action of a trial, once it has trained up to the last result that was decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Train,
    /// Save, then release the resources.
    Pause,
    /// Release the resources without saving, because the state is no longer needed.
    Leave,
    /// Save if required, then end.
    Stop,
}

/// Activity of a trial's actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The trial has no actor.
    Idle,
    Starting,
    Training,
    Saving,
    Stopping,
}

/// State of another trial, and new settings, that a trial takes over.
#[derive(Clone, Debug)]
pub(super) struct Exploit {
    pub(super) source: String,
    /// The trial's own settings and tag, restored if the source has no state to take over.
    own: (Config, String),
    pub(super) log: Option<PolicyStep>,
}

/// State of a trial that the driver keeps in addition to [`Trial`].
#[derive(Debug)]
pub(super) struct Run {
    pub(super) dir: PathBuf,
    pub(super) drawn: Config,
    /// Resources that the trainable asked for; a scheduler may have assigned others.
    pub(super) requested: Resources,
    pub(super) stage: Stage,
    /// Iteration of the last result that was decided about.
    pub(super) seen: u64,
    pub(super) next: Next,
    /// Whether the scheduler ordered a checkpoint at iteration `seen` for other trials to start from.
    pub(super) save: bool,
    pub(super) checkpoints: Checkpoints,
    pub(super) failures: u64,
    pub(super) error: Option<String>,
    pub(super) exploit: Option<Exploit>,
    /// Whether nothing is left to do for the trial.
    pub(super) completed: bool,
}

pub(super) struct Sweep {
    pub(super) dir: PathBuf,
    pub(super) trials: Vec<Trial>,
    pub(super) runs: Vec<Run>,
    index: HashMap<String, usize>,
    /// Index of the first trial that may not have ended; all trials before it have ended.
    first_open: usize,
    pub(super) searcher: Box<dyn Searcher>,
    pub(super) scheduler: Box<dyn TrialScheduler>,
    pub(super) stopper: Option<Box<dyn Stopper>>,
    /// Metric of the sweep that no result has had yet; `None` once a result had it.
    awaited_metric: Option<String>,
    pub(super) stop_all: Option<String>,
    /// Seconds that the sweep has run.
    pub(super) elapsed: f64,
    /// Whether the scheduler has given orders since the control loop last checked.
    pub(super) ordered: bool,
    /// Trials that were stopped while they had no actor.
    pub(super) released: Vec<usize>,
}

impl Sweep {
    pub(super) fn new(
        dir: &Path,
        searcher: Box<dyn Searcher>,
        scheduler: Box<dyn TrialScheduler>,
        stopper: Option<Box<dyn Stopper>>,
        metric: Option<String>,
    ) -> Self {
        Sweep {
            dir: dir.to_path_buf(),
            trials: Vec::new(),
            runs: Vec::new(),
            index: HashMap::new(),
            first_open: 0,
            searcher,
            scheduler,
            stopper,
            awaited_metric: metric,
            stop_all: None,
            elapsed: 0.0,
            ordered: false,
            released: Vec::new(),
        }
    }

    pub(super) fn find(&self, trial_id: &str) -> Result<usize> {
        let unknown = || Error::experiment(&self.dir, format!("there is no trial {trial_id}"));
        self.index.get(trial_id).copied().ok_or_else(unknown)
    }

    /// Returns the trials from the first one that has not ended, and that trial's index. Searching only these keeps the cost
    /// independent of the number of trials that have ended.
    pub(super) fn open_trials(&mut self) -> (usize, &[Trial]) {
        let open = &self.trials[self.first_open..];
        self.first_open += open.iter().take_while(|trial| trial.status.is_finished()).count();
        (self.first_open, &self.trials[self.first_open..])
    }

    /// Resets all running trials to pending, because a new driver has no actors yet.
    pub(super) fn interrupted(&mut self) {
        for (trial, run) in self.trials.iter_mut().zip(&mut self.runs) {
            run.stage = Stage::Idle;
            if trial.status == TrialStatus::Running {
                trial.status = TrialStatus::Pending;
            }
        }
    }

    /// Adds a trial and returns its index.
    pub(super) fn add(
        &mut self,
        trial_id: &str,
        config: Config,
        drawn: Config,
        tag: &str,
        resources: Resources,
    ) -> Result<usize> {
        let mut trial = Trial {
            trial_id: trial_id.into(),
            config,
            experiment_tag: tag.into(),
            status: TrialStatus::Pending,
            stopped_early: false,
            resources: resources.clone(),
            last_result: None,
        };
        self.scheduler.on_trial_add(&mut trial)?;
        self.index.insert(trial_id.into(), self.trials.len());
        self.runs.push(Run {
            dir: self.dir.join(trial_id),
            drawn,
            requested: resources,
            stage: Stage::Idle,
            seen: 0,
            next: Next::Train,
            save: false,
            checkpoints: Checkpoints::default(),
            failures: 0,
            error: None,
            exploit: None,
            completed: false,
        });
        self.trials.push(trial);
        Ok(self.trials.len() - 1)
    }

    /// Marks a trial as running after it got its resources.
    pub(super) fn started(&mut self, i: usize) {
        if matches!(self.trials[i].status, TrialStatus::Pending | TrialStatus::Paused) {
            self.trials[i].status = TrialStatus::Running;
            self.runs[i].next = Next::Train;
        }
    }

    /// Records that a trial took over another trial's state, as a checkpoint of its own.
    pub(super) fn adopted(&mut self, i: usize, checkpoint: SavedCheckpoint) -> Option<Exploit> {
        let run = &mut self.runs[i];
        run.seen = checkpoint.iteration;
        run.checkpoints.add(checkpoint, None);
        run.exploit.take()
    }

    /// Lets a trial keep its own settings, because the trial it should copy has no state to take over.
    pub(super) fn keep_own(&mut self, i: usize) {
        if let Some(exploit) = self.runs[i].exploit.take() {
            (self.trials[i].config, self.trials[i].experiment_tag) = exploit.own;
        }
    }

    /// Processes a new result: asks the stopper, then the scheduler, and tells the searcher. On a replay, the recorded
    /// decision of the stopper is used.
    pub(super) fn result(
        &mut self,
        i: usize,
        iteration: u64,
        result: Metrics,
        recorded: Option<Verdict>,
    ) -> Result<Verdict> {
        let trial_id = self.trials[i].trial_id.clone();
        let is_done = result.get("done") == Some(&Value::Bool(true));
        let stops = match &mut self.stopper {
            Some(stopper) => stopper.should_stop(&trial_id, &result)?,
            None => false,
        };
        let stops = recorded.map_or(is_done || stops, |verdict| verdict == Verdict::Done);
        let run = &mut self.runs[i];
        run.seen = iteration;
        run.next = Next::Train;
        let (verdict, orders) = if stops {
            (Verdict::Done, Vec::new())
        } else {
            let answer = self.scheduler.on_trial_result(&self.trials[i], &result, &self.trials)?;
            (answer.decision.into(), answer.orders)
        };
        let ends = matches!(verdict, Verdict::Done | Verdict::Stop);
        if !ends {
            self.searcher.on_trial_result(&trial_id, &result)?;
        }
        self.trials[i].last_result = Some(result);
        self.await_metric(i, ends, recorded.is_some())?;
        self.apply_orders(orders)?;
        match verdict {
            Verdict::Done => self.stop(i)?,
            Verdict::Stop => self.stop_early(i)?,
            Verdict::Pause if self.trials[i].status == TrialStatus::Running => {
                self.trials[i].status = TrialStatus::Paused;
                self.runs[i].next = Next::Pause;
            }
            Verdict::Pause | Verdict::Continue | Verdict::Noop => {}
        }
        Ok(verdict)
    }

    /// Fails if a result lacks the metric of the sweep and no earlier result had it. A part of the result such as
    /// `evaluation` may be empty at first, so a key with `/` may be missing until a trial is `over`.
    fn await_metric(&mut self, i: usize, over: bool, recorded: bool) -> Result<()> {
        let (Some(key), Some(result)) = (&self.awaited_metric, &self.trials[i].last_result) else {
            return Ok(());
        };
        if metric::find(result, key).is_some() {
            self.awaited_metric = None;
        } else if (over || !key.contains('/')) && !recorded {
            return Err(metric::missing(result, key, &self.trials[i].trial_id, "the metric of the sweep"));
        }
        Ok(())
    }

    /// Ends a trial that has no more results.
    pub(super) fn ended(&mut self, i: usize) -> Result<()> {
        self.await_metric(i, true, false)?;
        if let Some(last) = &mut self.trials[i].last_result {
            last.insert("done".into(), true.into());
        }
        self.stop(i)
    }

    /// Asks the scheduler what to do when no trial can continue.
    pub(super) fn idle(&mut self) -> Result<()> {
        let orders = self.scheduler.on_idle(&self.trials)?;
        self.apply_orders(orders)
    }

    pub(super) fn saved(&mut self, i: usize, checkpoint: SavedCheckpoint, score: Option<f64>) {
        let run = &mut self.runs[i];
        let iteration = checkpoint.iteration;
        run.checkpoints.add(checkpoint, score);
        if run.save && iteration >= run.seen {
            run.save = false;
            run.checkpoints.keep(iteration);
        }
    }

    /// Records a failure. The trial becomes pending, to be tried again, unless it was stopped already.
    pub(super) fn failed(&mut self, i: usize, message: String) {
        let run = &mut self.runs[i];
        run.failures += 1;
        run.error = Some(message);
        if self.trials[i].status == TrialStatus::Running {
            self.trials[i].status = TrialStatus::Pending;
        }
    }

    /// Ends a trial that failed more often than allowed.
    pub(super) fn given_up(&mut self, i: usize) -> Result<()> {
        self.runs[i].completed = true;
        self.runs[i].save = false;
        let was = std::mem::replace(&mut self.trials[i].status, TrialStatus::Error);
        if was.is_finished() {
            return Ok(());
        }
        let orders = self.scheduler.on_trial_error(&self.trials[i], &self.trials)?;
        self.searcher.on_trial_complete(&self.trials[i].trial_id, None)?;
        self.apply_orders(orders)
    }

    /// Makes a failed trial pending again, even if all trials had been stopped. The searcher and scheduler have seen it
    /// fail; they see it again only when it reports a new result.
    pub(super) fn retried(&mut self, i: usize, from_scratch: bool) {
        self.stop_all = None;
        let run = &mut self.runs[i];
        run.completed = false;
        run.failures = 0;
        run.error = None;
        if from_scratch {
            run.checkpoints = Checkpoints::default();
        }
        // A trial that failed in its last save, after it was stopped, needs only that save and no further result.
        let owes_its_end = !from_scratch && matches!(run.next, Next::Stop);
        self.trials[i].status = if owes_its_end {
            TrialStatus::Terminated
        } else {
            run.next = Next::Train;
            self.trials[i].stopped_early = false;
            TrialStatus::Pending
        };
        self.first_open = self.first_open.min(i);
    }

    /// Stops a trial in any state.
    pub(super) fn stop(&mut self, i: usize) -> Result<()> {
        let status = self.trials[i].status;
        if status.is_finished() {
            return Ok(());
        }
        self.runs[i].next = Next::Stop;
        self.runs[i].exploit = None;
        if self.runs[i].stage == Stage::Idle {
            self.released.push(i);
        }
        let trial = &self.trials[i];
        let (orders, last) = match (&trial.last_result, status) {
            (Some(result), TrialStatus::Running) => {
                (self.scheduler.on_trial_complete(trial, result, &self.trials)?, Some(result))
            }
            _ => (self.scheduler.on_trial_remove(trial, &self.trials)?, None),
        };
        self.searcher.on_trial_complete(&trial.trial_id, last)?;
        self.trials[i].status = TrialStatus::Terminated;
        self.apply_orders(orders)
    }

    /// Stops a trial because the scheduler says so.
    fn stop_early(&mut self, i: usize) -> Result<()> {
        self.trials[i].stopped_early |= !self.trials[i].status.is_finished();
        self.stop(i)
    }

    fn apply_orders(&mut self, orders: Vec<Order>) -> Result<()> {
        for order in orders {
            self.ordered = true;
            match order {
                Order::Stop(trial_id) => {
                    let i = self.find(&trial_id)?;
                    self.stop_early(i)?;
                }
                Order::Unpause(trial_id) => {
                    let i = self.find(&trial_id)?;
                    if self.trials[i].status == TrialStatus::Paused {
                        self.trials[i].status = TrialStatus::Pending;
                    }
                }
                Order::Save(trial_id) => {
                    let i = self.find(&trial_id)?;
                    let run = &mut self.runs[i];
                    let has_it = self.trials[i].status == TrialStatus::Paused
                        && run.checkpoints.newest() == Some(run.seen);
                    if has_it {
                        run.checkpoints.keep(run.seen);
                    } else {
                        run.save = true;
                    }
                }
                Order::Exploit { trial_id, source, config, experiment_tag, log } => {
                    let i = self.find(&trial_id)?;
                    let trial = &mut self.trials[i];
                    if trial.status.is_finished() {
                        continue;
                    }
                    let own = match self.runs[i].exploit.take() {
                        Some(earlier) => earlier.own,
                        None => (trial.config.clone(), trial.experiment_tag.clone()),
                    };
                    trial.config = config;
                    trial.experiment_tag = experiment_tag;
                    trial.status = TrialStatus::Paused;
                    self.runs[i].exploit = Some(Exploit { source, own, log });
                    self.runs[i].next = Next::Leave;
                }
                Order::SetResources(trial_id, resources) => {
                    let i = self.find(&trial_id)?;
                    let trial = &mut self.trials[i];
                    trial.resources = resources;
                    if trial.status == TrialStatus::Running {
                        trial.status = TrialStatus::Paused;
                        self.runs[i].next = Next::Pause;
                    }
                }
            }
        }
        Ok(())
    }
}
