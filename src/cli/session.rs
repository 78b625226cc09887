//! The training loop of `train` and `resume`: reports results, saves checkpoints, and says how to continue.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;

use super::output::{print_json, program, quoted, say};
use super::profile::Profile;
use super::progress::{Progress, timesteps};
use super::run_dir::{self, Lock, RunFile};
use super::trust;
use crate::registry::AnyAlgorithm;
use crate::tune::stoppers::{Met, StoppingCriteria};
use crate::tune::{Driver, Error, checkpoint};

/// Options for the output of a run.
#[derive(Args, Debug)]
pub(super) struct ReportArgs {
    /// Print one JSON object per result on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Show no progress; errors only
    #[arg(long)]
    quiet: bool,
    /// Print a table of the time of each phase of an iteration at the end, on standard error
    #[arg(long)]
    profile: bool,
}

impl ReportArgs {
    pub(super) fn say(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }
}

/// A run that is being trained.
pub(super) struct Session {
    driver: Driver<Box<dyn AnyAlgorithm>>,
    run: RunFile,
    stop: StoppingCriteria,
    report: ReportArgs,
    interrupt: Arc<AtomicBool>,
    /// Path of the checkpoint of the current iteration, if it was saved.
    saved: Option<PathBuf>,
    profile: Profile,
    _lock: Lock,
}

/// Whether a session starts a new run or continues one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Begin {
    /// The run is new.
    New,
    /// The run existed before.
    Resumed,
}

/// Reason for the end of training.
enum End {
    Met(Met),
    /// A result had `done` set to true.
    Done,
    Interrupted,
    /// The reader of standard output closed it.
    Unread,
}

impl Session {
    /// Makes a session that has not saved a checkpoint yet.
    pub(super) fn new(
        driver: Driver<Box<dyn AnyAlgorithm>>,
        run: RunFile,
        stop: StoppingCriteria,
        report: ReportArgs,
        interrupt: Arc<AtomicBool>,
        lock: Lock,
    ) -> Session {
        let profile = Profile::default();
        Session { driver, run, stop, report, interrupt, saved: None, profile, _lock: lock }
    }

    /// Trains until a criterion is met or a signal arrives, then saves a checkpoint.
    pub(super) fn run(mut self, begin: Begin) -> anyhow::Result<()> {
        if self.stop.is_empty() {
            self.report.say(
                "no stop criterion: training goes on until Ctrl-C (--stop timesteps_total=100000 sets one)",
            );
        }
        self.driver.check_run_dir()?;
        let steps = self.driver.last_result().and_then(timesteps).unwrap_or(0);
        let mut progress = Progress::new(self.report.quiet, self.stop.limit("timesteps_total"), steps);
        let end = self.train(begin, &mut progress);
        progress.finish();
        if self.report.profile && !self.profile.is_empty() {
            say(&self.profile.to_string());
        }
        let ended = end.and_then(|end| self.end(&end));
        ended.inspect_err(|error| self.hint_after_failure(error))
    }

    fn train(&mut self, begin: Begin, progress: &mut Progress) -> anyhow::Result<End> {
        let mut is_first = true;
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(End::Interrupted);
            }
            let started = Instant::now();
            let result = match self.driver.train() {
                Ok(result) => result,
                Err(error) => {
                    self.save_without_workers(!is_first);
                    return Err(error.into());
                }
            };
            self.saved = None;
            match self.stop.check(self.driver.trial_id(), &result) {
                Ok(()) if is_first => self.note_criteria()?,
                Ok(()) => {}
                Err(error) => {
                    self.give_up(is_first, begin)?;
                    return Err(error.into());
                }
            }
            is_first = false;
            progress.update(&result);
            let read = !self.report.json || print_json(&result)?;
            let frequency = self.run.checkpoint_freq;
            let asked_for = result.get("should_checkpoint") == Some(&true.into());
            if asked_for || (frequency > 0 && self.driver.iteration().is_multiple_of(frequency)) {
                self.save()?;
            }
            self.profile.add(&result, started.elapsed());
            if let Some(met) = self.stop.met(&result)? {
                return Ok(End::Met(met));
            }
            if result.get("done") == Some(&true.into()) {
                return Ok(End::Done);
            }
            if !read {
                return Ok(End::Unread);
            }
        }
    }

    fn save(&mut self) -> anyhow::Result<()> {
        if self.saved.is_none() {
            self.saved = Some(self.driver.save()?);
        }
        Ok(())
    }

    /// Saves a checkpoint after workers failed, if the run would be lost otherwise: it has no earlier checkpoint, or saves
    /// only at its end. An earlier checkpoint is better, because the run continues from it bit for bit.
    fn save_without_workers(&mut self, has_learned: bool) {
        let would_be_lost = match self.run.checkpoint_freq {
            0 => self.run.checkpoint_at_end,
            _ => matches!(checkpoint::latest(self.driver.logdir()), Ok(None)),
        };
        if has_learned && self.saved.is_none() && would_be_lost && self.driver.has_lost_workers() {
            // The error of the run is reported, so an error of saving is ignored.
            let _ = self.save();
        }
    }

    /// Writes the stop criteria, which may have changed, to `run.json` for the next `resume`.
    fn note_criteria(&mut self) -> anyhow::Result<()> {
        let criteria = self.stop.to_config();
        if self.run.stop != criteria {
            self.driver.check_run_dir()?;
            self.run.stop = criteria;
            self.run.write(self.driver.logdir())?;
        }
        Ok(())
    }

    /// Ends the run because a stop criterion has an unknown key. After the first result of a new run, everything is deleted,
    /// so that a corrected command can use the directory. Later (some keys appear late), a checkpoint is saved.
    fn give_up(&mut self, is_first: bool, begin: Begin) -> anyhow::Result<()> {
        if !is_first {
            self.save()?;
        }
        self.driver.stop()?;
        match (is_first, begin) {
            (true, Begin::New) => {
                run_dir::take_back(self.driver.logdir(), self.run.remote_checkpoint_dir.as_deref())
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, end: &End) -> anyhow::Result<()> {
        let is_over = matches!(end, End::Met(_) | End::Done);
        if self.run.checkpoint_at_end || !is_over {
            self.save()?;
        }
        self.driver.check_run_dir()?;
        self.driver.stop()?;
        let dir = self.driver.logdir().display().to_string();
        let program = program();
        let place = self.run.remote_checkpoint_dir.as_ref().unwrap_or(&dir);
        self.report.say(&match end {
            End::Met(met) => format!("done: {} is {}, the run stops at {}", met.key, met.value, met.limit),
            End::Done => "done: the last result says so".into(),
            End::Interrupted => "stopped by a signal".into(),
            End::Unread => "stopped because the reader of standard output closed it".into(),
        });
        self.report.say(&format!("run directory: {dir}"));
        if *place != dir {
            self.report.say(&format!("kept at:       {place}"));
        }
        let Some(saved) = &self.saved else { return Ok(()) };
        self.report.say(&format!("checkpoint:    {}", saved.display()));
        let trust = self.trust_flag();
        let command_place = quoted(place);
        self.report.say(&format!("evaluate it:   {program} evaluate {command_place}{trust}"));
        self.report.say(&match end {
            End::Met(met) => {
                format!("train longer:  {program} resume {command_place}{trust} --stop {}=VALUE", met.key)
            }
            _ => format!("resume:        {program} resume {command_place}{trust}"),
        });
        Ok(())
    }

    /// Returns the ` --trust` that a command needs to continue this run, or an empty text.
    fn trust_flag(&self) -> &'static str {
        let mut settings = self.run.config.clone();
        settings.insert("env".into(), self.run.env.as_str().into());
        trust::flag(&settings)
    }

    fn hint_after_failure(&self, error: &anyhow::Error) {
        let dir = match error.downcast_ref() {
            Some(Error::RunDirectory { moved_to: Some(place), .. }) => place.as_path(),
            _ => self.driver.logdir(),
        };
        if let Ok(Some(newest)) = checkpoint::latest(dir) {
            say(&format!(
                "the newest checkpoint is {}; go on from it with `{} resume {}{}`",
                newest.display(),
                program(),
                quoted(dir),
                self.trust_flag()
            ));
        }
    }
}
