//! The state of a sweep, which is determined by its journal.
//!
//! Every change is a method here. It is called while the sweep runs and again, with the line read from the journal, on
//! restoring. The same calls bring the searcher, scheduler and stopper of a restored sweep to the same state.
//!
//! A trial that goes back to a checkpoint trains some results again. These are not reported again: the decisions about them
//! stand. Once the trial has reached the iteration `seen` again, its actor does what [`TrialRun::next`] says.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::checkpoints::Checkpoints;
use super::journal::Verdict;
use super::life::{Exploit, State, TrialRun};
use crate::base::{Config, Error, Metrics, Resources, Result, Trial, TrialStatus, metric};
use crate::executor::SavedCheckpoint;
use crate::schedulers::{Order, TrialScheduler};
use crate::search::Searcher;
use crate::stoppers::Stopper;

pub(super) struct Sweep {
    pub(super) dir: PathBuf,
    pub(super) trials: Vec<Trial>,
    pub(super) runs: Vec<TrialRun>,
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
        for i in 0..self.runs.len() {
            if self.runs[i].state == State::Running {
                self.enter(i, State::Pending);
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
            earlier_config: None,
        };
        self.scheduler.on_trial_add(&mut trial)?;
        self.index.insert(trial_id.into(), self.trials.len());
        self.runs.push(TrialRun::new(self.dir.join(trial_id), drawn, resources));
        self.trials.push(trial);
        Ok(self.trials.len() - 1)
    }

    /// Changes the state of a trial, and the status that others see. Nothing else changes them.
    fn enter(&mut self, i: usize, state: State) {
        self.runs[i].state = state;
        self.trials[i].status = state.status();
    }

    /// Marks a trial as running after it got its resources. A trial that has ended only completes its last checkpoint.
    pub(super) fn started(&mut self, i: usize) {
        if matches!(self.runs[i].state, State::Pending | State::Paused) {
            self.enter(i, State::Running);
        }
    }

    /// Marks a trial as completed: it has ended, and its files are written.
    pub(super) fn completed(&mut self, i: usize) {
        self.enter(i, State::Completed);
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
            let trial = &mut self.trials[i];
            (trial.config, trial.experiment_tag) = exploit.own;
            if trial.earlier_config.as_ref() == Some(&trial.config) {
                trial.earlier_config = None;
            }
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
        self.runs[i].seen = iteration;
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
        let run = &mut self.runs[i];
        if let Some(config) = self.trials[i].earlier_config.take() {
            run.earlier_configs.push((run.results, config));
        }
        run.results += 1;
        self.trials[i].last_result = Some(result);
        self.await_metric(i, ends, recorded.is_some())?;
        self.apply_orders(orders)?;
        match verdict {
            Verdict::Done => self.stop(i)?,
            Verdict::Stop => self.stop_early(i)?,
            Verdict::Pause if self.runs[i].state == State::Running => self.enter(i, State::Paused),
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
        if run.state == State::Running {
            self.enter(i, State::Pending);
        }
    }

    /// Ends a trial that failed more often than allowed.
    pub(super) fn given_up(&mut self, i: usize) -> Result<()> {
        self.runs[i].save = false;
        let had_ended = self.trials[i].status.is_finished();
        self.enter(i, State::Failed { had_ended });
        if had_ended {
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
        run.failures = 0;
        run.error = None;
        if from_scratch {
            run.checkpoints = Checkpoints::default();
        }
        // A trial that failed in its last save, after it was stopped, needs only that save and no further result.
        if run.state == (State::Failed { had_ended: true }) && !from_scratch {
            self.enter(i, State::Ending);
        } else {
            self.trials[i].stopped_early = false;
            self.enter(i, State::Pending);
        }
        self.first_open = self.first_open.min(i);
    }

    /// Stops a trial in any state.
    pub(super) fn stop(&mut self, i: usize) -> Result<()> {
        let status = self.trials[i].status;
        if status.is_finished() {
            return Ok(());
        }
        self.runs[i].exploit = None;
        if self.runs[i].actor.is_none() {
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
        self.enter(i, State::Ending);
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
                    if self.runs[i].state == State::Paused {
                        self.enter(i, State::Pending);
                    }
                }
                Order::Save(trial_id) => {
                    let i = self.find(&trial_id)?;
                    let run = &mut self.runs[i];
                    let has_it = run.state == State::Paused && run.checkpoints.newest() == Some(run.seen);
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
                    let trained = std::mem::replace(&mut trial.config, config);
                    if trial.last_result.is_some() {
                        trial.earlier_config.get_or_insert(trained);
                    }
                    trial.experiment_tag = experiment_tag;
                    self.runs[i].exploit = Some(Exploit { source, own, log });
                    self.enter(i, State::Paused);
                }
                Order::SetResources(trial_id, resources) => {
                    let i = self.find(&trial_id)?;
                    self.trials[i].resources = resources;
                    if self.runs[i].state == State::Running {
                        self.enter(i, State::Paused);
                    }
                }
            }
        }
        Ok(())
    }
}
