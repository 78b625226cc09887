//! Drawing of trials, and starting them with resources and an actor.

use std::borrow::Cow;
use std::path::PathBuf;

use super::{Control, ParkedActor};
use crate::base::{Config, Error, Resources, Result, Trial, TrialStatus};
use crate::checkpoint;
use crate::executor::{Request, Start};
use crate::search::{Suggestion, experiment_tag};
use crate::tuner::journal::Event;
use crate::tuner::life::{Actor, State};

impl Control {
    /// Starts one trial if possible. Returns `false` if none can be started now.
    pub(super) fn start_one(&mut self) -> Result<bool> {
        self.end_if_removed();
        if self.unsaved.nothing_to_start
            || self.unsaved.interrupted
            || self.unsaved.trial_of.len() >= self.max_concurrent
        {
            return Ok(false);
        }
        let started = self.has_room() && self.start_or_draw()?;
        self.unsaved.nothing_to_start = !started;
        Ok(started)
    }

    fn start_or_draw(&mut self) -> Result<bool> {
        if let Some(at) = (0..self.unsaved.to_finish.len()).find(|at| self.fits(self.unsaved.to_finish[*at]))
        {
            let i = self.unsaved.to_finish.swap_remove(at);
            self.start(i)?;
            return Ok(true);
        }
        if self.sweep.stop_all.is_some() {
            return Ok(false);
        }
        let (_, open) = self.sweep.open_trials();
        let mut pending = open.iter().filter(|trial| trial.status == TrialStatus::Pending).count();
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
        !self.unsaved.exhausted && !self.unsaved.waits
    }

    /// Resources that a trial with these settings takes from the pool.
    pub(in crate::tuner) fn resources(&self, config: &Config) -> Result<Resources> {
        let asked = self.factory.resources(config)?;
        Ok(if self.executor.is_on_ray() { asked } else { asked.without_actors() })
    }

    /// Whether any resources are free, or any actor can be reused.
    fn has_room(&self) -> bool {
        self.pool.has_any_free() || !self.unsaved.parked.is_empty()
    }

    fn choose(&mut self) -> Option<usize> {
        let first = self.sweep.open_trials().0;
        let fits = |trial: &Trial| self.sweep.find(&trial.trial_id).is_ok_and(|i| self.fits(i));
        let chosen = self.sweep.scheduler.choose_trial_to_run(&self.sweep.trials[first..], &fits);
        chosen.map(|at| first + at)
    }

    fn fits(&self, i: usize) -> bool {
        let run = &self.sweep.runs[i];
        let resources = &self.sweep.trials[i].resources;
        let waits_for_source = run.exploit.as_ref().is_some_and(|exploit| {
            self.sweep.find(&exploit.source).is_ok_and(|source| {
                let source_run = &self.sweep.runs[source];
                source_run.save && source != i && !source_run.state.is_over()
            })
        });
        run.actor.is_none()
            && !waits_for_source
            && (self.pool.fits(resources)
                || self.unsaved.parked.iter().any(|parked| parked.resources == *resources))
    }

    /// Asks the searcher for a trial and adds it. Returns `false` if there is none now.
    fn draw(&mut self) -> Result<bool> {
        if self.num_samples.is_some_and(|most| self.sweep.trials.len() as u64 >= most) {
            self.unsaved.exhausted = true;
            return Ok(false);
        }
        let number = self.sweep.trials.len();
        let trial_id = format!("{}_{number:05}", self.prefix);
        match self.sweep.searcher.suggest(&trial_id)? {
            Suggestion::Wait => self.unsaved.waits = true,
            Suggestion::Finished => self.unsaved.exhausted = true,
            Suggestion::Trial { config, drawn } => {
                let tag = experiment_tag(number as u64, &drawn);
                let drawn: Config = drawn.into_iter().collect();
                let resources = self.resources(&config)?;
                let given = config.clone();
                let i = self.sweep.add(&trial_id, config, drawn, &tag, resources)?;
                if self.sweep.trials[i].config != given {
                    let resources = self.resources(&self.sweep.trials[i].config)?;
                    self.sweep.trials[i].resources = resources.clone();
                    self.sweep.runs[i].requested = resources;
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

    pub(in crate::tuner) fn refuse_what_never_fits(&self, trial: &Trial) -> Result<()> {
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

    fn tell_of_shared_cores(&mut self, request: &Resources) {
        let Some((wanted, there)) = self.pool.too_few_cores(request) else { return };
        if !std::mem::replace(&mut self.unsaved.told_of_cores, true) {
            self.say(&format!(
                "a trial asks for {wanted} CPUs and this machine has {there}: its threads share them, and one trial \
                 runs at a time"
            ));
        }
    }

    /// Starts a trial: gives it resources and an actor.
    pub(super) fn start(&mut self, i: usize) -> Result<()> {
        let (from, source) = self.where_to_start(i)?;
        let trial_id = self.id(i);
        let iteration = from.as_ref().map(|(iteration, _)| *iteration);
        self.log(&Event::Started { trial_id: trial_id.clone().into(), from: iteration })?;
        if self.journal.rescued().is_some() {
            // Nothing is begun where the sweep is no more.
            return Ok(());
        }
        self.sweep.started(i);
        self.unsaved.ran.insert(i);
        let holds = source.zip(iteration);
        if let Some((source, iteration)) = holds {
            self.sweep.runs[source].checkpoints.hold(iteration);
        }
        let resources = self.sweep.trials[i].resources.clone();
        let reused = self.unsaved.parked.iter().position(|parked| parked.resources == resources);
        let (actor, gpus) = match reused {
            Some(at) => {
                let ParkedActor { id, gpus, .. } = self.unsaved.parked.swap_remove(at);
                (id, gpus)
            }
            None => {
                self.tell_of_shared_cores(&resources);
                self.unsaved.next_actor += 1;
                let actor = self.unsaved.next_actor;
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
            // A trial that was stopped or is to be saved is asked for that first.
            trains_at_once: from.is_none()
                && run.state == State::Running
                && run.seen == 0
                && !run.save
                && !self.unsaved.interrupted,
            from: from.map(|(_, path)| path),
            log_results: self.run_config.log_results,
        };
        let restores = start.from.is_some();
        self.unsaved.trial_of.insert(actor, i);
        self.sweep.runs[i].actor = Some(Actor { id: actor, gpus, progress: None, holds });
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

    /// Returns the checkpoint that a trial starts from, as iteration and path, and the trial it belongs to if that is
    /// another one.
    #[expect(clippy::type_complexity, reason = "read once, just below")]
    fn where_to_start(&mut self, i: usize) -> Result<(Option<(u64, PathBuf)>, Option<usize>)> {
        if let Some(exploit) = &self.sweep.runs[i].exploit {
            let source = self.sweep.find(&exploit.source)?;
            if let Some(kept) = self.sweep.runs[source].checkpoints.kept()
                && let Some(path) = self.intact_checkpoint(source, kept)?
            {
                return Ok((Some((kept, path)), Some(source)));
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
        let saved = run.checkpoints.iter().rev().map(|saved| saved.iteration);
        for iteration in saved.filter(|iteration| *iteration <= run.seen).collect::<Vec<_>>() {
            if let Some(path) = self.intact_checkpoint(i, iteration)? {
                return Ok((Some((iteration, path)), None));
            }
        }
        Ok((None, None))
    }

    /// Returns the path of a checkpoint, which is downloaded if necessary. If it is damaged or missing, logs a warning and
    /// returns `None`.
    fn intact_checkpoint(&mut self, i: usize, iteration: u64) -> Result<Option<PathBuf>> {
        let path = self.sweep.runs[i].dir.join(checkpoint::name(iteration));
        let mut skipped = match checkpoint::verify(&path, None) {
            Ok(_) => return Ok(Some(path)),
            Err(error) => error,
        };
        if let Some(remote) = self.remote.as_mut().filter(|remote| remote.has(&path)) {
            match remote.fetch(i, iteration, &path) {
                Ok(()) => return Ok(Some(path)),
                Err(error @ Error::Checkpoint { .. }) => skipped = error,
                Err(error) => return Err(error),
            }
        }
        tracing::warn!("skipped: {skipped}");
        Ok(None)
    }

    /// Finds out how the sweep continues when no trial is running. Returns `false` if it has ended.
    pub(super) fn ask_idle_scheduler(&mut self) -> Result<bool> {
        self.unsaved.nothing_to_start = false;
        if !self.unsaved.parked.is_empty() {
            // The other trials may be waiting for the resources of these actors.
            self.dismiss_parked();
            return Ok(true);
        }
        if self.sweep.open_trials().1.is_empty() {
            if self.unsaved.waits {
                let reason = "the searcher waits for results, but no trial runs that could give any";
                return Err(Error::experiment(&self.sweep.dir, reason));
            }
            return Ok(false);
        }
        if self.journal.ends_with_idle() {
            return Err(self.stands_still());
        }
        let (first, open) = self.sweep.open_trials();
        let before: Vec<TrialStatus> = open.iter().map(|trial| trial.status).collect();
        self.log(&Event::Idle)?;
        self.sweep.idle()?;
        let after = self.sweep.trials[first..].iter().map(|trial| trial.status);
        if after.ne(before) || self.choose().is_some() {
            return Ok(true);
        }
        Err(self.stands_still())
    }

    fn stands_still(&self) -> Error {
        let open = self.sweep.trials.iter().filter(|trial| !trial.status.is_finished());
        let stuck: Vec<&str> = open.map(|trial| &*trial.trial_id).collect();
        let reason = format!(
            "the sweep stands still: {} lets none of these trials go on: {}",
            self.sweep.scheduler.debug_string(),
            stuck.join(", ")
        );
        Error::experiment(&self.sweep.dir, reason)
    }

    pub(super) fn dismiss_parked(&mut self) {
        for ParkedActor { id, .. } in std::mem::take(&mut self.unsaved.parked) {
            self.executor.send(id, Request::Stop);
            self.executor.forget(id);
            self.pool.give_back(id);
        }
    }
}
