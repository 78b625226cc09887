//! Handling of the reports from actors, and the choice of what their trials do next.

use std::borrow::Cow;

use serde_json::Value;

use super::{Control, ParkedActor};
use crate::base::{Error, Metrics, Result};
use crate::checkpoint;
use crate::executor::{ActorId, Report, Request, SavedCheckpoint};
use crate::tuner::failures;
use crate::tuner::journal::{Event, Verdict};
use crate::tuner::life::{Actor, Progress, State, TrialRun};
use crate::tuner::settings::FailFast;

/// What a trial's actor does once it has trained up to the last result that was decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The actor trains the next iteration.
    Train,
    /// The actor saves the trial, then releases its resources.
    Pause,
    /// The actor releases the trial's resources without saving, because the trial takes over another trial's state.
    Leave,
    /// The actor saves the trial if it must have a checkpoint at its end, then releases its resources.
    Stop,
}

impl TrialRun {
    /// Returns what the trial's actor does once it has trained up to the result `seen`.
    pub(super) fn next(&self) -> Next {
        match self.state {
            State::Running => Next::Train,
            State::Pending | State::Paused if self.exploit.is_some() => Next::Leave,
            State::Pending | State::Paused => Next::Pause,
            State::Ending | State::Completed | State::Failed { .. } => Next::Stop,
        }
    }
}

impl Control {
    pub(super) fn on_report(&mut self, actor: ActorId, report: Report) -> Result<()> {
        // The report comes from an actor that was dismissed.
        let Some(&i) = self.unsaved.trial_of.get(&actor) else { return Ok(()) };
        if matches!(report, Report::Failed { .. }) {
            self.executor.alive()?;
        }
        if !matches!(report, Report::Trained { .. } | Report::Started { .. }) {
            self.unsaved.nothing_to_start = false;
        }
        match report {
            Report::Started { iteration, bytes } => self.on_started(i, iteration, bytes),
            Report::CannotReset => {
                self.dismiss(actor, i);
                self.reuse_actors = false;
                tracing::info!("trainables are made anew for each trial: `reset_config` returned false");
                self.start(i)
            }
            Report::Trained { iteration, result, is_last } => {
                self.on_result(i, iteration, result)?;
                // One that is to be paused goes on from its checkpoint later.
                if is_last && self.sweep.runs[i].next() == Next::Train {
                    self.on_ended(i)?;
                }
                self.request_next(i, true)
            }
            Report::Ended => {
                self.on_ended(i)?;
                self.release(i)
            }
            Report::Saved(saved) => self.on_saved(i, saved),
            Report::Stopped { error } => {
                if let Some(error) = error {
                    tracing::warn!("trial {}: while cleaning up: {error}", self.sweep.trials[i].trial_id);
                }
                self.dismiss(actor, i);
                self.settled(i)
            }
            Report::Failed { message } => self.on_failed(actor, i, message),
        }
    }

    fn on_started(&mut self, i: usize, iteration: u64, bytes: u64) -> Result<()> {
        self.progressed(i, Progress { iteration, should_checkpoint: false, score: None });
        let holds = self.sweep.runs[i].actor.as_mut().and_then(|actor| actor.holds.take());
        if let Some((source, held)) = holds {
            self.sweep.runs[source].checkpoints.release(held);
            let trial_id = self.id(i);
            let source_id = self.id(source);
            let checkpoint = SavedCheckpoint { iteration, bytes };
            self.journal.append(&Event::Adopted {
                trial_id: trial_id.clone().into(),
                source: source_id.clone().into(),
                checkpoint: checkpoint.clone(),
            })?;
            self.unsaved.bytes -= self.sweep.runs[i].checkpoints.bytes();
            let exploit = self.sweep.adopted(i, checkpoint);
            self.unsaved.bytes += self.sweep.runs[i].checkpoints.bytes();
            if let Some(log) = exploit.and_then(|exploit| exploit.log) {
                log.append(&self.sweep.dir, &trial_id, &source_id)?;
            }
            self.upload(i, iteration);
        }
        self.drop_local_surplus(i)?;
        self.request_next(i, false)
    }

    fn on_result(&mut self, i: usize, iteration: u64, result: Metrics) -> Result<()> {
        let should_checkpoint = result.get("should_checkpoint") == Some(&Value::Bool(true));
        let score = self.score(&result);
        self.progressed(i, Progress { iteration, should_checkpoint, score });
        let is_wanted = self.sweep.runs[i].state == State::Running;
        if is_wanted && iteration > self.sweep.runs[i].seen {
            if std::mem::take(&mut self.unsaved.waits) {
                self.unsaved.nothing_to_start = false;
            }
            let elapsed = self.elapsed();
            let trial_id = self.id(i);
            let verdict = self.sweep.result(i, iteration, result, None)?;
            if verdict != Verdict::Continue || std::mem::take(&mut self.sweep.ordered) {
                self.unsaved.nothing_to_start = false;
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
                if let Some(remote) = &self.remote {
                    remote.mirror.note(self.journal.length());
                }
                for callback in &mut self.run_config.callbacks {
                    callback.on_trial_result(&self.sweep.trials, trial, result)?;
                }
            }
            self.report(false);
        }
        Ok(())
    }

    /// Notes that a trial has no more results.
    fn on_ended(&mut self, i: usize) -> Result<()> {
        if self.sweep.runs[i].next() != Next::Stop {
            let trial_id = self.id(i);
            self.log(&Event::Ended { trial_id: trial_id.into() })?;
            self.sweep.ended(i)?;
        }
        self.unsaved.waits = false;
        self.unsaved.nothing_to_start = false;
        Ok(())
    }

    fn progressed(&mut self, i: usize, progress: Progress) {
        if let Some(actor) = &mut self.sweep.runs[i].actor {
            actor.progress = Some(progress);
        }
    }

    fn score(&self, result: &Metrics) -> Option<f64> {
        let objective = self.run_config.checkpoint_config.score.as_ref()?;
        let score = objective.finite_score(result);
        if score.is_none() {
            tracing::debug!("the result has no number for `{}`, the score of checkpoints", objective.metric);
        }
        score
    }

    /// Sends a trial's next request. `trained` says whether the trial has just trained, as opposed to started or saved.
    fn request_next(&mut self, i: usize, trained: bool) -> Result<()> {
        let run = &self.sweep.runs[i];
        let Some(at) = run.progress() else { return Ok(()) };
        let next = run.next();
        let is_there = at.iteration >= run.seen;
        let frequency = self.run_config.checkpoint_config.checkpoint_frequency;
        let by_count = frequency.is_some_and(|every| at.iteration.is_multiple_of(every));
        let at_end = next == Next::Stop && self.saves_at_end();
        let before_leaving = self.unsaved.interrupted && !self.factory.is_function();
        let by_itself = at.should_checkpoint || by_count || before_leaving;
        let by_decision = is_there && (next == Next::Pause || at_end);
        if next != Next::Leave && ((is_there && run.save) || (trained && (by_itself || by_decision))) {
            self.send(i, Request::Save);
            return Ok(());
        }
        if self.unsaved.interrupted {
            return self.release(i);
        }
        match next {
            Next::Leave => self.release(i),
            Next::Pause | Next::Stop if is_there => self.release(i),
            Next::Train | Next::Pause | Next::Stop => {
                self.send(i, Request::Train);
                Ok(())
            }
        }
    }

    fn send(&mut self, i: usize, request: Request) {
        if let Some(actor) = &self.sweep.runs[i].actor {
            self.executor.send(actor.id, request);
        }
    }

    fn on_saved(&mut self, i: usize, saved: SavedCheckpoint) -> Result<()> {
        let score = self.sweep.runs[i].progress().and_then(|at| at.score);
        let trial_id = self.id(i);
        self.journal.append(&Event::Saved { trial_id: trial_id.into(), checkpoint: saved.clone(), score })?;
        self.upload(i, saved.iteration);
        let path = self.sweep.runs[i].dir.join(checkpoint::name(saved.iteration));
        self.unsaved.bytes -= self.sweep.runs[i].checkpoints.bytes();
        self.sweep.saved(i, saved, score);
        self.unsaved.bytes += self.sweep.runs[i].checkpoints.bytes();
        self.delete_surplus(i)?;
        for callback in &mut self.run_config.callbacks {
            callback.on_checkpoint(&self.sweep.trials, &self.sweep.trials[i], &path)?;
        }
        self.request_next(i, false)
    }

    /// Deletes the checkpoints of a trial, or of all trials, that exceed the limits of the sweep.
    pub(in crate::tuner) fn delete_surplus(&mut self, i: usize) -> Result<()> {
        let config = &self.run_config.checkpoint_config;
        if let Some(num_to_keep) = config.num_to_keep {
            let by_score = config.score.is_some();
            for iteration in self.sweep.runs[i].checkpoints.surplus(num_to_keep, by_score) {
                self.delete(i, iteration)?;
            }
        }
        let Some(budget) = self.run_config.checkpoint_config.max_bytes else { return Ok(()) };
        // Oldest trials first; each trial keeps its newest checkpoint.
        let mut oldest = 0;
        while self.unsaved.bytes > budget && oldest < self.sweep.runs.len() {
            match self.sweep.runs[oldest].checkpoints.oldest_unneeded() {
                Some(iteration) => self.delete(oldest, iteration)?,
                None => oldest += 1,
            }
        }
        Ok(())
    }

    /// Deletes a checkpoint, locally and on the storage.
    pub(in crate::tuner) fn delete(&mut self, i: usize, iteration: u64) -> Result<()> {
        let run = &mut self.sweep.runs[i];
        let forgotten = run.checkpoints.forget(iteration);
        self.unsaved.bytes -= forgotten.map_or(0, |checkpoint| checkpoint.bytes);
        let path = run.dir.join(checkpoint::name(iteration));
        if let Some(remote) = &mut self.remote {
            remote.delete(i, iteration, &path, self.journal.length());
        }
        if path.is_dir() { checkpoint::remove(&path) } else { Ok(()) }
    }

    /// Separates a trial from its actor. The actor is kept for reuse if `reuse_actors` is set, otherwise it stops.
    fn release(&mut self, i: usize) -> Result<()> {
        if !self.reuse_actors || self.unsaved.interrupted {
            self.send(i, Request::Stop);
            return Ok(());
        }
        let Some(Actor { id, gpus, .. }) = self.sweep.runs[i].actor.take() else { return Ok(()) };
        let resources = self.sweep.trials[i].resources.clone();
        self.unsaved.trial_of.remove(&id);
        self.unsaved.parked.push(ParkedActor { id, resources, gpus });
        self.unsaved.nothing_to_start = false;
        self.settled(i)
    }

    /// Takes the actor, which has ended, from its trial, and gives its resources back.
    fn dismiss(&mut self, actor: ActorId, i: usize) {
        self.unsaved.nothing_to_start = false;
        self.unsaved.trial_of.remove(&actor);
        if let Some((source, iteration)) = self.sweep.runs[i].actor.take().and_then(|actor| actor.holds) {
            self.sweep.runs[source].checkpoints.release(iteration);
        }
        self.pool.give_back(actor);
        self.executor.forget(actor);
    }

    /// Handles a trial that no longer has an actor.
    fn settled(&mut self, i: usize) -> Result<()> {
        match self.sweep.runs[i].state {
            State::Ending if !self.unsaved.interrupted || !self.needs_training(i) => self.complete(i),
            // The trial was interrupted; a restore continues it.
            _ => Ok(()),
        }
    }

    /// Whether a stopped trial lacks the checkpoint at its last result, and must train up to there again after a restore.
    pub(super) fn needs_training(&self, i: usize) -> bool {
        let run = &self.sweep.runs[i];
        run.save || (self.saves_at_end() && run.checkpoints.newest() != Some(run.seen))
    }

    pub(super) fn complete(&mut self, i: usize) -> Result<()> {
        checkpoint::clean_up(&self.sweep.runs[i].dir);
        let trial_id = self.id(i);
        self.log(&Event::Completed { trial_id: trial_id.into() })?;
        self.upload_files(i);
        self.sweep.completed(i);
        self.unsaved.waits = false;
        for callback in &mut self.run_config.callbacks {
            callback.on_trial_complete(&self.sweep.trials, &self.sweep.trials[i])?;
        }
        Ok(())
    }

    fn on_failed(&mut self, actor: ActorId, i: usize, message: String) -> Result<()> {
        self.dismiss(actor, i);
        self.unsaved.waits = false;
        let trial_id = self.id(i);
        self.log(&Event::Failed { trial_id: trial_id.clone().into(), message: Cow::Borrowed(&message) })?;
        self.sweep.failed(i, message.clone());
        let place = self.journal.rescued().map(|place| place.join(&trial_id));
        failures::write(place.as_ref().unwrap_or(&self.sweep.runs[i].dir), &message)?;
        checkpoint::clean_up(&self.sweep.runs[i].dir);
        let failure = self.run_config.failure_config;
        if failure.fail_fast == FailFast::Raise {
            return Err(Error::TrialFailed { trial_id, message });
        }
        let failures = self.sweep.runs[i].failures;
        let again = failure.max_failures.is_none_or(|most| failures <= most);
        self.say_failure(i, &message, again);
        if again {
            if self.sweep.runs[i].state == State::Ending {
                self.sweep.released.push(i);
            }
            for callback in &mut self.run_config.callbacks {
                callback.on_trial_recover(&self.sweep.trials, &self.sweep.trials[i], &message)?;
            }
            return Ok(());
        }
        self.log(&Event::GivenUp { trial_id: trial_id.into() })?;
        self.upload_files(i);
        self.sweep.given_up(i)?;
        for callback in &mut self.run_config.callbacks {
            callback.on_trial_error(&self.sweep.trials, &self.sweep.trials[i], &message)?;
        }
        if failure.fail_fast == FailFast::Stop && !self.unsaved.interrupted {
            self.unsaved.interrupted = true;
            self.say(
                "a trial failed, and `fail_fast` is set: trials are saved after their current iteration; restore the sweep to go on",
            );
        }
        Ok(())
    }
}
