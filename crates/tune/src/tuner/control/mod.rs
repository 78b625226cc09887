//! The control loop of a running sweep: draws trials, gives them resources, and acts on their reports.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::journal::{Event, Header, Journal};
use super::pool::Pool;
use super::reporter::{self, SweepProgress};
use super::results::deleted_dir;
use super::settings::{ExecutorKind, Restore, RunConfig};
use super::stored_sweep::StoredSweep;
use super::sweep::Sweep;
use super::table::Columns;
use super::{ResultGrid, Tuner};
use crate::base::{Error, Objective, Resources, Result, TrialStatus};
use crate::executor::{ActorId, Executor, ProcessExecutor, ThreadExecutor};
use crate::functions::TrainableFactory;
use crate::schedulers::FifoScheduler;
use crate::search::{BasicVariantConfig, BasicVariantGenerator, Searcher};

mod reports;
mod start;
mod uploads;

/// Number of pending trials that are drawn ahead with the default searcher, whose draws do not depend on results. Schedulers
/// that compare a population then see all of it. Ray also draws 16 ahead, or slightly more than there are CPUs.
const DRAWS_AHEAD: usize = 16;

/// Interval at which an interrupt and the time limits are checked while no trial reports.
const TICK: Duration = Duration::from_millis(100);

/// Time after which a sweep without a reporter says once how many trials run and wait.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Control {
    pub(super) sweep: Sweep,
    pub(super) journal: Journal,
    pub(super) executor: Box<dyn Executor>,
    /// Storage of the sweep, if the storage path is a URL.
    pub(super) remote: Option<StoredSweep>,
    pub(super) factory: TrainableFactory,
    pub(super) pool: Pool,
    /// Whether the pool's total follows the resources that the executor reports, which may change.
    pub(super) follows_executor: bool,
    pub(super) run_config: RunConfig,
    /// Search space of the sweep, for tables.
    pub(super) space: Value,
    /// Objective of the sweep or else of its scheduler, for tables.
    pub(super) shown: Option<Objective>,
    pub(super) prefix: String,
    /// Number of trials in the whole sweep; `None` means no limit.
    pub(super) num_samples: Option<u64>,
    pub(super) max_concurrent: usize,
    /// Maximum number of pending trials to draw ahead. With 0, each trial is drawn when there is room for it, so that the
    /// searcher knows all results so far.
    pub(super) draws_ahead: usize,
    pub(super) time_budget: Option<f64>,
    pub(super) reuse_actors: bool,
    pub(super) unsaved: Unsaved,
}

/// State that exists only in memory. After a crash it is rebuilt from the journal.
#[derive(Default)]
pub(super) struct Unsaved {
    started: Option<Instant>,
    elapsed_before: f64,
    next_actor: ActorId,
    /// Index of the trial that each running actor works for; the actor itself is in [`TrialRun::actor`](super::life::TrialRun::actor).
    trial_of: HashMap<ActorId, usize>,
    /// Actors without a trial, kept for reuse.
    parked: Vec<ParkedActor>,
    /// Trials that were stopped before a restore without their last checkpoint; they are trained up to that point again and
    /// saved.
    to_finish: Vec<usize>,
    /// Whether no trial could be started and nothing has changed since.
    nothing_to_start: bool,
    exhausted: bool,
    /// Whether the searcher answered that it must wait for results.
    waits: bool,
    interrupted: bool,
    /// Trials that this process started.
    ran: BTreeSet<usize>,
    /// Whether the user of a sweep without a reporter was told what it waits for.
    told_of_waiting: bool,
    /// Whether the user was told that trials share the cores.
    told_of_cores: bool,
    /// Size of all checkpoints of the sweep.
    pub(super) bytes: u64,
}

/// An actor without a trial. It keeps its resources, and runs the next trial that needs the same.
struct ParkedActor {
    id: ActorId,
    resources: Resources,
    gpus: Vec<usize>,
}

impl Tuner {
    /// Makes what runs the actors, as the settings say.
    pub(super) fn new_executor(&self) -> Result<Box<dyn Executor>> {
        Ok(match self.tune_config.executor {
            ExecutorKind::Threads => Box::new(ThreadExecutor::new(self.trainable.clone())),
            ExecutorKind::Processes => Box::new(ProcessExecutor::new(&self.trainable)?),
            ExecutorKind::Ray => Box::new(ProcessExecutor::on_ray(&self.trainable)?),
        })
    }

    /// Creates the pool of resources that trials share: the configured total, or else the resources of the executor.
    pub(super) fn pool(&self, executor: &dyn Executor) -> Result<Pool> {
        Pool::new(self.tune_config.total_resources.clone().or_else(|| executor.total_resources()))
    }

    /// Runs a sweep whose journal has begun, or goes on with one whose events are `restored`.
    pub(super) fn run_sweep(
        self,
        dir: PathBuf,
        header: Header,
        mut journal: Journal,
        (executor, pool): (Box<dyn Executor>, Pool),
        remote: Option<StoredSweep>,
        restored: Option<(Vec<Event<'static>>, Restore)>,
    ) -> Result<ResultGrid> {
        let Tuner { trainable, param_space, tune_config, mut run_config } = self;
        let objective = tune_config.objective.as_ref();
        let is_default = tune_config.search_alg.is_none();
        let mut searcher = tune_config.search_alg.unwrap_or_else(|| {
            let settings = BasicVariantConfig { seed: tune_config.seed, ..BasicVariantConfig::default() };
            Box::new(BasicVariantGenerator::new(settings))
        });
        searcher.set_search_properties(objective, &param_space)?;
        let num_samples = searcher.total_samples(tune_config.num_samples);
        let mut scheduler = tune_config.scheduler.unwrap_or_else(|| Box::new(FifoScheduler));
        scheduler.set_search_properties(objective)?;
        if !is_default && !scheduler.works_with_searchers() {
            let rule = "its trials change their settings on the way: leave the searcher out";
            return Err(Error::config("search_alg", scheduler.debug_string(), rule));
        }
        // Tables show the scheduler's metric if the sweep has none of its own.
        let shown = objective.or(scheduler.objective()).cloned();
        scheduler.set_total_resources(&header.resources);
        let awaited = objective.map(|objective| objective.metric.clone());
        let mut sweep = Sweep::new(&dir, searcher, scheduler, run_config.stop.take(), awaited);
        let mut which = None;
        if let Some((events, goes_on)) = restored {
            for event in events {
                sweep.replay(event)?;
            }
            let resources = Cow::Borrowed(pool.total());
            let event = Event::Restored { num_samples: tune_config.num_samples, resources };
            journal.append(&event)?;
            sweep.replay(event)?;
            which = Some(goes_on);
        }
        let mut control = Control {
            sweep,
            journal,
            executor,
            remote,
            factory: trainable,
            pool,
            follows_executor: tune_config.total_resources.is_none(),
            space: header.space,
            shown,
            run_config,
            prefix: header.prefix,
            num_samples,
            max_concurrent: tune_config.max_concurrent_trials.unwrap_or(usize::MAX),
            draws_ahead: if is_default { DRAWS_AHEAD } else { 0 },
            time_budget: tune_config.time_budget.map(|budget| budget.as_secs_f64()),
            reuse_actors: tune_config.reuse_actors,
            unsaved: Unsaved::default(),
        };
        if let Some(which) = which {
            control.choose_what_goes_on(which)?;
        }
        let outcome = control.run();
        let outcome = control.end_of_rescue(outcome);
        let written = control.write_results();
        control.finish_uploads(outcome.is_ok())?;
        let interrupted = outcome?;
        written?;
        let deleted = control.deleted_trials();
        for i in &deleted {
            let trial_id = control.id(*i);
            control.say(&format!("trial {trial_id}: {}", deleted_dir(&control.sweep.runs[*i].dir)));
        }
        let Control { sweep, remote, space, shown, .. } = control;
        Ok(ResultGrid::of(sweep, remote.as_ref(), space, shown, interrupted, &deleted))
    }
}

impl Control {
    /// Runs the sweep to its end. Returns whether it was interrupted.
    fn run(&mut self) -> Result<bool> {
        self.unsaved.started = Some(Instant::now());
        self.unsaved.elapsed_before = self.sweep.elapsed;
        for callback in &mut self.run_config.callbacks {
            callback.setup(&self.sweep.dir, self.num_samples)?;
        }
        // A new sweep has no trials yet.
        if !self.sweep.trials.is_empty() {
            self.complete_what_was_decided()?;
        }
        self.queue_uploads();
        loop {
            for callback in &mut self.run_config.callbacks {
                callback.on_step_begin(&self.sweep.trials)?;
            }
            self.settle_released()?;
            self.check_end_of_all()?;
            self.follow_executor();
            while self.start_one()? {}
            if self.unsaved.trial_of.is_empty() {
                if self.unsaved.interrupted || !self.ask_idle_scheduler()? {
                    break;
                }
                continue;
            }
            match self.executor.reports().recv_timeout(TICK) {
                Ok((actor, report)) => self.on_report(actor, report)?,
                Err(_) => {
                    self.report(false);
                    self.tell_of_waiting();
                }
            }
            self.on_uploads()?;
            for callback in &mut self.run_config.callbacks {
                callback.on_step_end(&self.sweep.trials)?;
            }
        }
        self.dismiss_parked();
        for callback in &mut self.run_config.callbacks {
            callback.on_experiment_end(&self.sweep.trials)?;
        }
        self.report(true);
        Ok(self.unsaved.interrupted)
    }

    /// Has the sweep end if its directory was removed or moved: trials are saved after their current iteration.
    fn end_if_removed(&mut self) {
        let Some(place) = self.journal.rescued().map(Path::to_path_buf) else { return };
        if !std::mem::replace(&mut self.unsaved.interrupted, true) {
            self.say(&format!(
                "the sweep's directory {} was removed or moved: trials are saved in {} after their current iteration, and \
                 the sweep ends",
                self.sweep.dir.display(),
                place.display()
            ));
        }
    }

    /// Makes an error of the outcome of a sweep whose directory was removed or moved.
    fn end_of_rescue(&mut self, outcome: Result<bool>) -> Result<bool> {
        let outcome = outcome.and_then(|interrupted| self.journal.stay().map(|()| interrupted));
        let rescued = self.journal.rescued().map(Path::to_path_buf);
        match (outcome, rescued) {
            (Ok(_), Some(place)) => {
                let path = self.sweep.dir.clone();
                let moved_to = self.journal.moved_to();
                Err(Error::RunDirectory { path, moved_to, rescued: Some(place) })
            }
            (outcome, _) => outcome,
        }
    }

    /// Trials that have ended and whose directories were deleted while this process ran the sweep.
    fn deleted_trials(&self) -> BTreeSet<usize> {
        if self.remote.is_some() || self.executor.is_on_ray() {
            return BTreeSet::new();
        }
        let is_deleted = |i: &usize| {
            self.sweep.trials[*i].status == TrialStatus::Terminated && !self.sweep.runs[*i].dir.is_dir()
        };
        self.unsaved.ran.iter().copied().filter(is_deleted).collect()
    }

    /// Shows the sweep to the user.
    fn report(&mut self, done: bool) {
        let Some(reporter) = &mut self.run_config.progress_reporter else { return };
        let columns = Columns { space: &self.space, objective: self.shown.as_ref() };
        reporter.report(&SweepProgress::new(&self.sweep.trials, columns, &*self.sweep.scheduler), done);
    }

    /// Tells the user of a sweep without a reporter once, after [`PATIENCE`], what the sweep waits for.
    fn tell_of_waiting(&mut self) {
        let waited = self.unsaved.started.map(|started| started.elapsed()).unwrap_or_default();
        if self.unsaved.told_of_waiting || self.run_config.progress_reporter.is_some() || waited < PATIENCE {
            return;
        }
        self.unsaved.told_of_waiting = true;
        let columns = Columns { space: &self.space, objective: self.shown.as_ref() };
        let progress = SweepProgress::new(&self.sweep.trials, columns, &*self.sweep.scheduler);
        reporter::notice(&progress.waiting(&self.sweep.dir));
    }

    fn say(&mut self, text: &str) {
        match &mut self.run_config.progress_reporter {
            Some(reporter) => reporter.message(text),
            None => tracing::info!("{text}"),
        }
    }

    fn say_failure(&mut self, i: usize, message: &str, again: bool) {
        let trial = &self.sweep.trials[i];
        let text = reporter::failure(trial, &self.sweep.runs[i].dir, message, again);
        match &mut self.run_config.progress_reporter {
            Some(reporter) => reporter.trial_failed(trial, &text),
            None => tracing::warn!("{text}"),
        }
    }

    fn follow_executor(&mut self) {
        let total = self.follows_executor.then(|| self.executor.total_resources()).flatten();
        if total.is_some_and(|total| self.pool.change(total)) {
            self.unsaved.nothing_to_start = false;
        }
    }

    pub(super) fn log(&mut self, event: &Event<'_>) -> Result<()> {
        self.journal.append(event)?;
        if let Some(remote) = &self.remote {
            remote.mirror.note(self.journal.length());
        }
        Ok(())
    }

    pub(super) fn id(&self, i: usize) -> String {
        self.sweep.trials[i].trial_id.clone()
    }

    /// Completes trials that ended while they had no actor, or schedules the training that their last checkpoint needs.
    fn settle_released(&mut self) -> Result<()> {
        while let Some(i) = self.sweep.released.pop() {
            let run = &self.sweep.runs[i];
            if run.actor.is_some() || run.state.is_over() {
                continue;
            }
            let unsaved = run.checkpoints.newest() != Some(run.seen);
            if run.seen > 0 && unsaved && (run.save || self.saves_at_end()) {
                self.unsaved.to_finish.push(i);
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
        self.unsaved.elapsed_before
            + self.unsaved.started.map_or(0.0, |started| started.elapsed().as_secs_f64())
    }

    fn check_end_of_all(&mut self) -> Result<()> {
        if self.run_config.interrupt.load(Ordering::Relaxed) && !self.unsaved.interrupted {
            self.unsaved.interrupted = true;
            self.say(
                "interrupted: trials are saved after their current iteration; restore the sweep to go on",
            );
        }
        self.end_if_removed();
        if self.sweep.stop_all.is_some() {
            return Ok(());
        }
        match self.reason_to_stop_all(self.elapsed()) {
            Some(reason) => self.stop_all(reason),
            None => Ok(()),
        }
    }

    /// Returns the reason to stop all trials once the sweep has run for `elapsed` seconds, if there is one.
    pub(super) fn reason_to_stop_all(&self, elapsed: f64) -> Option<&'static str> {
        let stopper = self.sweep.stopper.as_ref();
        if stopper.is_some_and(|stopper| stopper.stop_all(Duration::from_secs_f64(elapsed))) {
            return Some("a stop condition of the experiment is met");
        }
        let is_spent = self.time_budget.is_some_and(|budget| elapsed >= budget);
        is_spent.then_some("the time budget is spent")
    }

    fn stop_all(&mut self, reason: &str) -> Result<()> {
        self.log(&Event::StopAll { reason: reason.into() })?;
        self.sweep.stop_all = Some(reason.into());
        self.stop_open_trials()?;
        self.settle_released()
    }

    /// Stops all trials that have not ended. If the driver is killed halfway, the next one stops the rest.
    pub(super) fn stop_open_trials(&mut self) -> Result<()> {
        for i in 0..self.sweep.trials.len() {
            if !self.sweep.trials[i].status.is_finished() {
                let trial_id = self.id(i);
                self.log(&Event::Stopped { trial_id: trial_id.into() })?;
                self.sweep.stop(i)?;
            }
        }
        Ok(())
    }
}
