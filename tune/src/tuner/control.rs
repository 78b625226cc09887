//! The running sweep: draws trials, gives them resources, hears their reports.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::journal::{Event, Journal, Verdict};
use super::pool::Pool;
use super::progress::Progress;
use super::settings::{FailFast, Restore, RunConfig};
use super::sweep::{Next, Stage, Sweep};
use crate::executor::{ActorId, Executor, Report, Request, SavedCheckpoint, Start};
use crate::metric;
use crate::search::{Suggestion, experiment_tag};
use crate::{Config, Error, Metrics, Mode, Result, TrainableFactory, TrialStatus, checkpoint};

/// How often an interrupt and the clock are looked at when no trial reports.
const TICK: Duration = Duration::from_millis(100);

pub(super) struct Control {
    pub(super) sweep: Sweep,
    pub(super) journal: Journal,
    pub(super) executor: Box<dyn Executor>,
    pub(super) factory: TrainableFactory,
    pub(super) pool: Pool,
    pub(super) run_config: RunConfig,
    pub(super) progress: Progress,
    pub(super) prefix: String,
    /// Trials of the whole sweep; `None`: no end.
    pub(super) num_samples: Option<u64>,
    pub(super) max_concurrent: usize,
    /// Trials that may be pending; 0: each is drawn when there is room for it, knowing all results so far.
    pub(super) draws_ahead: usize,
    pub(super) time_budget: Option<f64>,
    pub(super) reuse_actors: bool,
    pub(super) live: Live,
}

/// What is forgotten when the driver dies.
#[derive(Default)]
pub(super) struct Live {
    started: Option<Instant>,
    elapsed_before: f64,
    next_actor: ActorId,
    /// Actors at work, and their trials.
    actors: HashMap<ActorId, usize>,
    of_trial: HashMap<usize, ActorId>,
    /// Actors without a trial that could become another one.
    parked: Vec<(ActorId, crate::Resources, Vec<usize>)>,
    gpus: HashMap<ActorId, Vec<usize>>,
    /// Where trials with an actor stand.
    at: HashMap<usize, Position>,
    /// Trials that hold the checkpoint of another one until they have started: source and iteration.
    holds: HashMap<usize, (usize, u64)>,
    /// Trials whose end was decided before a restore, to be trained up to there once more and saved.
    to_finish: Vec<usize>,
    /// Nothing has changed since no trial could be started.
    at_rest: bool,
    exhausted: bool,
    /// The searcher said to wait.
    waits: bool,
    interrupted: bool,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Position {
    iteration: u64,
    should_checkpoint: bool,
    score: Option<f64>,
}

impl Control {
    /// Runs to the end; `true`: it was interrupted.
    pub(super) fn run(&mut self) -> Result<bool> {
        self.live.started = Some(Instant::now());
        self.live.elapsed_before = self.sweep.elapsed;
        for callback in &mut self.run_config.callbacks {
            callback.setup(&self.sweep.dir, self.num_samples)?;
        }
        self.take_up()?;
        loop {
            self.settle_released()?;
            self.check_end_of_all()?;
            while self.start_one()? {}
            if self.live.actors.is_empty() {
                if self.live.interrupted || !self.wake_up()? {
                    break;
                }
                continue;
            }
            match self.executor.reports().recv_timeout(TICK) {
                Ok((actor, report)) => self.hear(actor, report)?,
                Err(_) => self.progress.tick(&self.sweep.trials, &*self.sweep.scheduler),
            }
        }
        self.dismiss_parked();
        for callback in &mut self.run_config.callbacks {
            callback.on_experiment_end(&self.sweep.trials)?;
        }
        self.progress.end(&self.sweep.trials, &*self.sweep.scheduler);
        Ok(self.live.interrupted)
    }

    /// After a replay: trials that were given up, and those that had not ended.
    pub(super) fn choose_what_goes_on(&mut self, which: Restore) -> Result<()> {
        for i in 0..self.sweep.trials.len() {
            let trial_id = self.id(i);
            match self.sweep.trials[i].status {
                TrialStatus::Error if which.resume_errored || which.restart_errored => {
                    let from_scratch = which.restart_errored;
                    self.log(&Event::Retried { trial_id: trial_id.into(), from_scratch })?;
                    self.sweep.retried(i, from_scratch);
                }
                TrialStatus::Pending | TrialStatus::Running | TrialStatus::Paused
                    if !which.resume_unfinished =>
                {
                    self.log(&Event::Stopped { trial_id: trial_id.into() })?;
                    self.sweep.stop(i)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// After a replay: what was decided and not done yet.
    fn take_up(&mut self) -> Result<()> {
        self.sweep.released.clear();
        for i in 0..self.sweep.trials.len() {
            let dir = self.sweep.runs[i].dir.clone();
            let run = &mut self.sweep.runs[i];
            let gone: Vec<u64> = run
                .checkpoints
                .iter()
                .map(|saved| saved.iteration)
                .filter(|iteration| !dir.join(checkpoint::name(*iteration)).is_dir())
                .collect();
            for iteration in gone {
                run.checkpoints.forget(iteration);
            }
            self.live.bytes += run.checkpoints.bytes();
            if self.sweep.trials[i].status == TrialStatus::Terminated && !self.sweep.runs[i].completed {
                self.sweep.released.push(i);
            }
        }
        Ok(())
    }

    fn log(&mut self, event: &Event<'_>) -> Result<()> {
        self.journal.append(event)
    }

    fn id(&self, i: usize) -> String {
        self.sweep.trials[i].trial_id.clone()
    }

    /// Trials that ended while nobody trained them.
    fn settle_released(&mut self) -> Result<()> {
        while let Some(i) = self.sweep.released.pop() {
            let run = &self.sweep.runs[i];
            if run.stage != Stage::Idle || run.completed {
                continue;
            }
            let unsaved = run.checkpoints.newest() != Some(run.seen);
            if run.seen > 0 && unsaved && (run.save || self.saves_at_end()) {
                self.live.to_finish.push(i);
            } else {
                self.complete(i)?;
            }
        }
        Ok(())
    }

    fn saves_at_end(&self) -> bool {
        self.run_config.checkpoint_config.checkpoint_at_end.unwrap_or(!self.factory.is_function())
    }

    fn elapsed(&self) -> f64 {
        self.live.elapsed_before + self.live.started.map_or(0.0, |started| started.elapsed().as_secs_f64())
    }

    fn check_end_of_all(&mut self) -> Result<()> {
        if self.run_config.interrupt.load(Ordering::Relaxed) && !self.live.interrupted {
            self.live.interrupted = true;
            self.progress.say(
                "interrupted: trials are saved after their current iteration; restore the sweep to go on",
            );
        }
        if self.sweep.stop_all.is_some() {
            return Ok(());
        }
        let elapsed = self.elapsed();
        let by_stopper = self
            .sweep
            .stopper
            .as_ref()
            .is_some_and(|stopper| stopper.stop_all(Duration::from_secs_f64(elapsed)));
        let reason = if by_stopper {
            "a stop condition of the experiment is met"
        } else if self.time_budget.is_some_and(|budget| elapsed >= budget) {
            "the time budget is spent"
        } else {
            return Ok(());
        };
        self.stop_all(reason)
    }

    fn stop_all(&mut self, reason: &str) -> Result<()> {
        self.log(&Event::StopAll { reason: reason.into() })?;
        self.sweep.stop_all = Some(reason.into());
        for i in 0..self.sweep.trials.len() {
            if !self.sweep.trials[i].status.is_finished() {
                let trial_id = self.id(i);
                self.log(&Event::Stopped { trial_id: trial_id.into() })?;
                self.sweep.stop(i)?;
            }
        }
        self.settle_released()
    }

    /// Starts a trial if there is one to start; `false`: there is none now.
    fn start_one(&mut self) -> Result<bool> {
        if self.live.at_rest || self.live.interrupted || self.live.actors.len() >= self.max_concurrent {
            return Ok(false);
        }
        let started = self.has_room() && self.start_or_draw()?;
        self.live.at_rest = !started;
        Ok(started)
    }

    fn start_or_draw(&mut self) -> Result<bool> {
        if let Some(at) = (0..self.live.to_finish.len()).find(|at| self.fits(self.live.to_finish[*at])) {
            let i = self.live.to_finish.swap_remove(at);
            self.start(i)?;
            return Ok(true);
        }
        if self.sweep.stop_all.is_some() {
            return Ok(false);
        }
        let mut pending =
            self.sweep.trials.iter().filter(|trial| trial.status == TrialStatus::Pending).count();
        while pending < self.draws_ahead && self.can_draw() && self.draw()? {
            pending += 1;
        }
        if let Some(i) = self.choose() {
            self.start(i)?;
            return Ok(true);
        }
        Ok(pending == 0 && self.can_draw() && self.draw()?)
    }

    fn can_draw(&self) -> bool {
        !self.live.exhausted && !self.live.waits
    }

    /// Whether any resources are free at all.
    fn has_room(&self) -> bool {
        self.pool.has_any_free() || !self.live.parked.is_empty()
    }

    fn choose(&mut self) -> Option<usize> {
        let index = |trial: &crate::Trial| self.sweep.find(&trial.trial_id).ok();
        let fits = |trial: &crate::Trial| index(trial).is_some_and(|i| self.fits(i));
        self.sweep.scheduler.choose_trial_to_run(&self.sweep.trials, &fits)
    }

    fn fits(&self, i: usize) -> bool {
        let run = &self.sweep.runs[i];
        let resources = &self.sweep.trials[i].resources;
        let waits_for_source = run.exploit.as_ref().is_some_and(|exploit| {
            self.sweep.find(&exploit.source).is_ok_and(|source| {
                let source_run = &self.sweep.runs[source];
                source_run.save && source != i && !source_run.completed
            })
        });
        run.stage == Stage::Idle
            && !waits_for_source
            && (self.pool.fits(resources)
                || self.live.parked.iter().any(|(_, parked, _)| parked == resources))
    }

    /// Asks the searcher for a trial.
    fn draw(&mut self) -> Result<bool> {
        if self.num_samples.is_some_and(|most| self.sweep.trials.len() as u64 >= most) {
            self.live.exhausted = true;
            return Ok(false);
        }
        let number = self.sweep.trials.len();
        let trial_id = format!("{}_{number:05}", self.prefix);
        match self.sweep.searcher.suggest(&trial_id)? {
            Suggestion::Wait => self.live.waits = true,
            Suggestion::Finished => self.live.exhausted = true,
            Suggestion::Trial { config, drawn } => {
                let tag = experiment_tag(number as u64, &drawn);
                let drawn: Config = drawn.into_iter().collect();
                let resources = self.factory.resources(&config)?;
                let given = config.clone();
                let i = self.sweep.add(&trial_id, config, drawn, &tag, resources)?;
                if self.sweep.trials[i].config != given {
                    self.sweep.trials[i].resources = self.factory.resources(&self.sweep.trials[i].config)?;
                }
                let trial = &self.sweep.trials[i];
                self.refuse_what_never_fits(trial)?;
                self.journal.append(&Event::Trial {
                    trial_id: trial_id.into(),
                    config: Cow::Borrowed(&trial.config),
                    drawn: Cow::Borrowed(&self.sweep.runs[i].drawn),
                    experiment_tag: tag.into(),
                    resources: Cow::Borrowed(&trial.resources),
                })?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn refuse_what_never_fits(&self, trial: &crate::Trial) -> Result<()> {
        if self.pool.can_ever_fit(&trial.resources) {
            return Ok(());
        }
        let help = self.factory.resource_help(&trial.config);
        let help = if help.is_empty() { String::new() } else { format!("; {help}") };
        Err(Error::Resources {
            request: format!("{:?}", trial.resources.bundles()),
            rule: format!(
                "trial {} can never run: the sweep has {:?} altogether{help}",
                trial.trial_id,
                self.pool.total()
            ),
        })
    }

    /// Gives a trial its resources and an actor.
    fn start(&mut self, i: usize) -> Result<()> {
        let (from, source) = self.where_to_start(i)?;
        let trial_id = self.id(i);
        let iteration = from.as_ref().map(|(iteration, _)| *iteration);
        self.log(&Event::Started { trial_id: trial_id.clone().into(), from: iteration })?;
        self.sweep.started(i);
        self.sweep.runs[i].stage = Stage::Starting;
        if let (Some(source), Some(iteration)) = (source, iteration) {
            self.sweep.runs[source].checkpoints.hold(iteration);
            self.live.holds.insert(i, (source, iteration));
        }
        let resources = self.sweep.trials[i].resources.clone();
        let reused = self.live.parked.iter().position(|(_, parked, _)| *parked == resources);
        let (actor, gpus) = match reused {
            Some(at) => {
                let (actor, _, gpus) = self.live.parked.swap_remove(at);
                (actor, gpus)
            }
            None => {
                self.live.next_actor += 1;
                let actor = self.live.next_actor;
                (actor, self.pool.take(actor, &resources))
            }
        };
        let run = &self.sweep.runs[i];
        let trial = &self.sweep.trials[i];
        let start = Start {
            trial_id: trial_id.clone(),
            trial_name: format!("{}_{trial_id}", self.factory.name()),
            config: trial.config.clone(),
            hparams: run.drawn.clone(),
            resources,
            gpus: gpus.clone(),
            logdir: run.dir.clone(),
            from: from.map(|(_, path)| path),
            log_results: self.run_config.log_results,
        };
        let restores = start.from.is_some();
        self.live.actors.insert(actor, i);
        self.live.of_trial.insert(i, actor);
        self.live.gpus.insert(actor, gpus);
        match reused {
            Some(_) => self.executor.send(actor, Request::Start(Box::new(start))),
            None => self.executor.spawn(actor, start)?,
        }
        for callback in &mut self.run_config.callbacks {
            callback.on_trial_start(&self.sweep.trials, &self.sweep.trials[i])?;
            if restores {
                callback.on_trial_restore(&self.sweep.trials, &self.sweep.trials[i])?;
            }
        }
        Ok(())
    }

    /// The checkpoint that a trial starts from, with its iteration; and the trial it belongs to if that is another one.
    #[expect(clippy::type_complexity, reason = "read once, just below")]
    fn where_to_start(&mut self, i: usize) -> Result<(Option<(u64, std::path::PathBuf)>, Option<usize>)> {
        if let Some(exploit) = &self.sweep.runs[i].exploit {
            let source = self.sweep.find(&exploit.source)?;
            let run = &self.sweep.runs[source];
            if let Some(kept) = run.checkpoints.kept() {
                let path = run.dir.join(checkpoint::name(kept));
                match checkpoint::verify(&path, None) {
                    Ok(_) => return Ok((Some((kept, path)), Some(source))),
                    Err(error) => tracing::warn!("{error}"),
                }
            }
            tracing::warn!(
                "trial {} keeps its state and settings: trial {} has no saved state to take over",
                self.id(i),
                self.id(source)
            );
            let trial_id = self.id(i);
            self.log(&Event::KeptOwn { trial_id: trial_id.into() })?;
            self.sweep.keep_own(i);
        }
        let run = &self.sweep.runs[i];
        for saved in run.checkpoints.iter().rev().filter(|saved| saved.iteration <= run.seen) {
            let path = run.dir.join(checkpoint::name(saved.iteration));
            match checkpoint::verify(&path, None) {
                Ok(_) => return Ok((Some((saved.iteration, path)), None)),
                Err(error) => tracing::warn!("skipped: {error}"),
            }
        }
        Ok((None, None))
    }

    /// Nothing trains. `false`: nothing ever will.
    fn wake_up(&mut self) -> Result<bool> {
        self.live.at_rest = false;
        if !self.live.parked.is_empty() {
            // What they hold may be what the others wait for.
            self.dismiss_parked();
            return Ok(true);
        }
        let is_open = |trial: &crate::Trial| !trial.status.is_finished();
        if !self.sweep.trials.iter().any(is_open) {
            if self.live.waits {
                let reason = "the searcher waits for results, but no trial runs that could give any";
                return Err(Error::experiment(&self.sweep.dir, reason));
            }
            return Ok(false);
        }
        let before: Vec<TrialStatus> = self.sweep.trials.iter().map(|trial| trial.status).collect();
        self.log(&Event::Idle)?;
        self.sweep.idle()?;
        let after = self.sweep.trials.iter().map(|trial| trial.status);
        if after.ne(before) || self.choose().is_some() {
            return Ok(true);
        }
        let stuck: Vec<&str> =
            self.sweep.trials.iter().filter(|trial| is_open(trial)).map(|t| &*t.trial_id).collect();
        let reason = format!(
            "the sweep stands still: {} lets none of these trials go on: {}",
            self.sweep.scheduler.debug_string(),
            stuck.join(", ")
        );
        Err(Error::experiment(&self.sweep.dir, reason))
    }

    fn dismiss_parked(&mut self) {
        for (actor, _, _) in std::mem::take(&mut self.live.parked) {
            self.executor.send(actor, Request::Stop);
            self.executor.forget(actor);
            self.pool.give_back(actor);
        }
    }

    fn hear(&mut self, actor: ActorId, report: Report) -> Result<()> {
        // Of an actor that was dismissed.
        let Some(&i) = self.live.actors.get(&actor) else { return Ok(()) };
        if !matches!(report, Report::Trained { .. } | Report::Started { .. }) {
            self.live.at_rest = false;
        }
        match report {
            Report::Started { iteration, bytes } => self.on_started(i, iteration, bytes),
            Report::CannotReset => {
                self.leave(actor, i);
                self.reuse_actors = false;
                tracing::info!("trainables are made anew for each trial: `reset_config` returned false");
                self.start(i)
            }
            Report::Trained { iteration, result } => self.on_result(i, iteration, result),
            Report::Ended => {
                if self.sweep.runs[i].next != Next::Stop {
                    let trial_id = self.id(i);
                    self.log(&Event::Ended { trial_id: trial_id.into() })?;
                    self.sweep.ended(i)?;
                }
                self.live.waits = false;
                self.release(i)
            }
            Report::Saved(saved) => self.on_saved(i, saved),
            Report::Stopped { error } => {
                if let Some(error) = error {
                    tracing::warn!("trial {}: while cleaning up: {error}", self.sweep.trials[i].trial_id);
                }
                self.leave(actor, i);
                self.settled(i)
            }
            Report::Failed { message } => self.on_failed(actor, i, message),
        }
    }

    fn on_started(&mut self, i: usize, iteration: u64, bytes: u64) -> Result<()> {
        self.live.at.insert(i, Position { iteration, should_checkpoint: false, score: None });
        if let Some((source, held)) = self.live.holds.remove(&i) {
            self.sweep.runs[source].checkpoints.release(held);
            let trial_id = self.id(i);
            let source_id = self.id(source);
            let checkpoint = SavedCheckpoint { iteration, bytes };
            self.log(&Event::Adopted {
                trial_id: trial_id.clone().into(),
                source: source_id.clone().into(),
                checkpoint: checkpoint.clone(),
            })?;
            self.live.bytes -= self.sweep.runs[i].checkpoints.bytes();
            let exploit = self.sweep.adopted(i, checkpoint);
            self.live.bytes += self.sweep.runs[i].checkpoints.bytes();
            if let Some(log) = exploit.and_then(|exploit| exploit.log) {
                log.append(&self.sweep.dir, &trial_id, &source_id)?;
            }
        }
        self.carry_on(i, false)
    }

    fn on_result(&mut self, i: usize, iteration: u64, result: Metrics) -> Result<()> {
        let should_checkpoint = result.get("should_checkpoint") == Some(&Value::Bool(true));
        let score = self.score(&result);
        self.live.at.insert(i, Position { iteration, should_checkpoint, score });
        let is_wanted = self.sweep.trials[i].status == TrialStatus::Running;
        if is_wanted && iteration > self.sweep.runs[i].seen {
            if std::mem::take(&mut self.live.waits) {
                self.live.at_rest = false;
            }
            let elapsed = self.elapsed();
            let trial_id = self.id(i);
            let verdict = self.sweep.result(i, iteration, result, None)?;
            if verdict != Verdict::Continue || std::mem::take(&mut self.sweep.ordered) {
                self.live.at_rest = false;
            }
            let trial = &self.sweep.trials[i];
            if let Some(result) = &trial.last_result {
                self.journal.append(&Event::Result {
                    trial_id: trial_id.into(),
                    iteration,
                    verdict,
                    elapsed,
                    result: Cow::Borrowed(result),
                })?;
                for callback in &mut self.run_config.callbacks {
                    callback.on_trial_result(&self.sweep.trials, trial, result)?;
                }
                self.progress.result(trial, result);
            }
            self.progress.tick(&self.sweep.trials, &*self.sweep.scheduler);
        }
        self.carry_on(i, true)
    }

    fn score(&self, result: &Metrics) -> Option<f64> {
        let config = &self.run_config.checkpoint_config;
        let attribute = config.checkpoint_score_attribute.as_deref()?;
        let order = config.checkpoint_score_order.unwrap_or(Mode::Max);
        let value = metric::number(result, attribute).ok().flatten();
        if value.is_none() {
            tracing::debug!("no result has a number for `{attribute}`, the score of checkpoints");
        }
        value.filter(|value| value.is_finite()).map(|value| order.score(value))
    }

    /// What comes next for a trial that has just `trained`, or else started or saved.
    fn carry_on(&mut self, i: usize, trained: bool) -> Result<()> {
        let run = &self.sweep.runs[i];
        let Some(at) = self.live.at.get(&i).copied() else { return Ok(()) };
        let is_there = at.iteration >= run.seen;
        let frequency = self.run_config.checkpoint_config.checkpoint_frequency;
        let by_count = frequency > 0 && at.iteration.is_multiple_of(frequency);
        let at_end = run.next == Next::Stop && self.saves_at_end();
        let before_leaving = self.live.interrupted && !self.factory.is_function();
        let by_itself = at.should_checkpoint || by_count || before_leaving;
        let by_decision = is_there && (run.next == Next::Pause || at_end);
        if run.next != Next::Leave && ((is_there && run.save) || (trained && (by_itself || by_decision))) {
            return self.send(i, Stage::Saving, Request::Save);
        }
        if self.live.interrupted {
            return self.release(i);
        }
        match run.next {
            Next::Leave => self.release(i),
            Next::Pause | Next::Stop if is_there => self.release(i),
            Next::Train | Next::Pause | Next::Stop => self.send(i, Stage::Training, Request::Train),
        }
    }

    fn send(&mut self, i: usize, stage: Stage, request: Request) -> Result<()> {
        self.sweep.runs[i].stage = stage;
        if let Some(actor) = self.live.of_trial.get(&i) {
            self.executor.send(*actor, request);
        }
        Ok(())
    }

    fn on_saved(&mut self, i: usize, saved: SavedCheckpoint) -> Result<()> {
        let score = self.live.at.get(&i).and_then(|at| at.score);
        let trial_id = self.id(i);
        self.log(&Event::Saved { trial_id: trial_id.into(), checkpoint: saved.clone(), score })?;
        let path = self.sweep.runs[i].dir.join(checkpoint::name(saved.iteration));
        self.live.bytes -= self.sweep.runs[i].checkpoints.bytes();
        self.sweep.saved(i, saved, score);
        self.live.bytes += self.sweep.runs[i].checkpoints.bytes();
        self.delete_surplus(i)?;
        for callback in &mut self.run_config.callbacks {
            callback.on_checkpoint(&self.sweep.trials, &self.sweep.trials[i], &path)?;
        }
        self.carry_on(i, false)
    }

    fn delete_surplus(&mut self, i: usize) -> Result<()> {
        let config = &self.run_config.checkpoint_config;
        if let Some(num_to_keep) = config.num_to_keep {
            let by_score = config.checkpoint_score_attribute.is_some();
            for iteration in self.sweep.runs[i].checkpoints.surplus(num_to_keep, by_score) {
                self.delete(i, iteration)?;
            }
        }
        let Some(budget) = self.run_config.checkpoint_config.max_bytes else { return Ok(()) };
        // From the oldest trial on; each keeps its newest.
        let mut oldest = 0;
        while self.live.bytes > budget && oldest < self.sweep.runs.len() {
            match self.sweep.runs[oldest].checkpoints.oldest_unneeded() {
                Some(iteration) => self.delete(oldest, iteration)?,
                None => oldest += 1,
            }
        }
        Ok(())
    }

    fn delete(&mut self, i: usize, iteration: u64) -> Result<()> {
        let run = &mut self.sweep.runs[i];
        let forgotten = run.checkpoints.forget(iteration);
        self.live.bytes -= forgotten.map_or(0, |checkpoint| checkpoint.bytes);
        checkpoint::remove(&run.dir.join(checkpoint::name(iteration)))
    }

    /// Takes a trial off its actor.
    fn release(&mut self, i: usize) -> Result<()> {
        let Some(&actor) = self.live.of_trial.get(&i) else { return Ok(()) };
        if self.reuse_actors && !self.live.interrupted {
            let resources = self.sweep.trials[i].resources.clone();
            let gpus = self.live.gpus.get(&actor).cloned().unwrap_or_default();
            self.live.actors.remove(&actor);
            self.live.of_trial.remove(&i);
            self.live.parked.push((actor, resources, gpus));
            self.live.at_rest = false;
            return self.settled(i);
        }
        self.send(i, Stage::Stopping, Request::Stop)
    }

    fn leave(&mut self, actor: ActorId, i: usize) {
        self.live.at_rest = false;
        self.live.actors.remove(&actor);
        self.live.of_trial.remove(&i);
        self.live.gpus.remove(&actor);
        self.pool.give_back(actor);
        self.executor.forget(actor);
    }

    /// A trial has no actor any more.
    fn settled(&mut self, i: usize) -> Result<()> {
        self.sweep.runs[i].stage = Stage::Idle;
        self.live.at.remove(&i);
        match self.sweep.trials[i].status {
            TrialStatus::Terminated if !self.live.interrupted || !self.needs_training(i) => self.complete(i),
            // Interrupted: it is taken up again by a restore.
            _ => Ok(()),
        }
    }

    /// Whether a trial that was stopped has not been where it was stopped, after a restore.
    fn needs_training(&self, i: usize) -> bool {
        let run = &self.sweep.runs[i];
        run.save || (self.saves_at_end() && run.checkpoints.newest() != Some(run.seen))
    }

    fn complete(&mut self, i: usize) -> Result<()> {
        let trial_id = self.id(i);
        self.log(&Event::Completed { trial_id: trial_id.into() })?;
        self.sweep.runs[i].completed = true;
        self.live.waits = false;
        for callback in &mut self.run_config.callbacks {
            callback.on_trial_complete(&self.sweep.trials, &self.sweep.trials[i])?;
        }
        Ok(())
    }

    fn on_failed(&mut self, actor: ActorId, i: usize, message: String) -> Result<()> {
        self.leave(actor, i);
        if let Some((source, iteration)) = self.live.holds.remove(&i) {
            self.sweep.runs[source].checkpoints.release(iteration);
        }
        self.live.at.remove(&i);
        self.sweep.runs[i].stage = Stage::Idle;
        self.live.waits = false;
        let trial_id = self.id(i);
        self.log(&Event::Failed { trial_id: trial_id.clone().into(), message: Cow::Borrowed(&message) })?;
        self.sweep.failed(i, message.clone());
        super::failures::write(&self.sweep.runs[i].dir, &message)?;
        let failure = self.run_config.failure_config;
        if failure.fail_fast == FailFast::Raise {
            return Err(Error::TrialFailed { trial_id, message });
        }
        let failures = self.sweep.runs[i].failures;
        let again = failure.max_failures == -1 || failures <= failure.max_failures;
        self.progress.failure(&self.sweep.trials[i], &self.sweep.runs[i].dir, &message, again);
        if again {
            if self.sweep.trials[i].status == TrialStatus::Terminated {
                self.sweep.released.push(i);
            }
            for callback in &mut self.run_config.callbacks {
                callback.on_trial_recover(&self.sweep.trials, &self.sweep.trials[i], &message)?;
            }
            return Ok(());
        }
        self.log(&Event::GivenUp { trial_id: trial_id.into() })?;
        self.sweep.given_up(i)?;
        for callback in &mut self.run_config.callbacks {
            callback.on_trial_error(&self.sweep.trials, &self.sweep.trials[i], &message)?;
        }
        if failure.fail_fast == FailFast::Stop {
            self.stop_all("a trial failed, and `fail_fast` is set")?;
        }
        Ok(())
    }
}
