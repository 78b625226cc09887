//! The training loop of `train` and `resume`: reports results, saves checkpoints, and says how to continue.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::output::{print_json, program, quoted, say};
use super::profile::Profile;
use super::progress::{Progress, timesteps};
use super::run_dir::{self, Lock, RUN, RunFile};
use super::{stretch, terminal, trust};
use crate::doctor::{self, Records, Saved};
use crate::registry::AnyAlgorithm;
use crate::tune::stoppers::{Met, StoppingCriteria};
use crate::tune::{Driver, Error, Metrics, checkpoint};

/// Options for the output of a run.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct ReportArgs {
    /// Print one JSON object per result on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Show no progress; errors only
    #[arg(long)]
    quiet: bool,
    /// Show the run on the terminal as `pavlov watch` does, in place of lines of progress
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    watch: bool,
    /// Print a table of the time of each phase of an iteration at the end, on standard error
    #[arg(long)]
    profile: bool,
}

impl ReportArgs {
    /// Refuses a screen where there is no terminal.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.watch { terminal::refuse_no_terminal(None) } else { Ok(()) }
    }

    pub(super) fn say(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }
}

/// Hundredths of a second for which a deletion that has begun is waited for.
const DELETION: usize = 100;

/// A run that is being trained.
pub(super) struct TrainingRun {
    driver: Driver<Box<dyn AnyAlgorithm>>,
    run: RunFile,
    stop: StoppingCriteria,
    report: ReportArgs,
    interrupt: Arc<AtomicBool>,
    /// Path of the checkpoint of the current iteration, if it was saved.
    saved: Option<PathBuf>,
    profile: Profile,
    /// What the rules of the doctor see of the run.
    records: Records,
    /// Names of the rules that have spoken.
    said: Vec<&'static str>,
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

impl TrainingRun {
    /// Makes a session that has not saved a checkpoint yet.
    pub(super) fn new(
        driver: Driver<Box<dyn AnyAlgorithm>>,
        run: RunFile,
        stop: StoppingCriteria,
        report: ReportArgs,
        interrupt: Arc<AtomicBool>,
        lock: Lock,
    ) -> TrainingRun {
        let profile = Profile::default();
        let records = Records::new(driver.get_config().clone());
        let said = Vec::new();
        TrainingRun { driver, run, stop, report, interrupt, saved: None, profile, records, said, _lock: lock }
    }

    /// Trains until a criterion is met or a signal arrives, then saves a checkpoint.
    pub(super) fn run(mut self, begin: Begin) -> anyhow::Result<()> {
        if self.stop.is_empty() {
            self.report.say(
                "no stop criterion: training goes on until Ctrl-C (--stop timesteps_total=100000 sets one)",
            );
        }
        self.driver.check_run_dir()?;
        self.driver.keep_file(RUN, self.run.content()?);
        if begin == Begin::Resumed
            && let Ok(before) = doctor::read(self.driver.logdir())
        {
            self.records = before;
            self.records.config.clone_from(self.driver.get_config());
        }
        self.records.target = self.stop.limit("timesteps_total");
        let steps = self.driver.last_result().and_then(timesteps).unwrap_or(0);
        let target = self.stop.limit("timesteps_total");
        let mut progress = if self.report.watch {
            Progress::on_screen(target, steps, self.driver.logdir())?
        } else {
            Progress::new(self.report.quiet, target, steps, self.first())
        };
        let end = self.train(begin, &mut progress);
        progress.finish();
        if self.report.profile && !self.profile.is_empty() {
            say(&self.profile.to_string());
        }
        let ended = end.and_then(|end| self.end(&end));
        let ended = ended.map_err(|error| match error.downcast::<Error>() {
            Ok(error) => self.rescue(error).into(),
            Err(error) => error,
        });
        ended.inspect_err(|error| self.hint_after_failure(error))
    }

    /// Says what happens before the first result.
    fn first(&self) -> String {
        let common = self.driver.common();
        let steps = common.min_sample_timesteps_per_reporting.unwrap_or(common.train_batch_size as u64);
        format!(
            "first iteration: it samples about {steps} steps and learns from them, then comes the first line"
        )
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
            self.watch(&result);
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

    /// Says once what goes wrong early in a run.
    fn watch(&mut self, result: &Metrics) {
        self.records.add(result);
        // Later in a run the rules have many rows to look at and seldom something new.
        let is_due = self.driver.iteration() <= 100 || self.driver.iteration().is_multiple_of(50);
        if !is_due {
            return;
        }
        for finding in doctor::watch(&self.records) {
            if !self.said.contains(&finding.rule) {
                self.said.push(finding.rule);
                self.report.say(&format!("doctor: {finding}"));
            }
        }
    }

    /// Says what the rules find in the whole run.
    fn say_findings(&mut self) {
        self.records.saved = self.saved.as_deref().and_then(|newest| Saved::read(newest).ok());
        let findings = doctor::examine(&self.records);
        findings.iter().for_each(|finding| self.report.say(&format!("doctor: {finding}")));
    }

    fn save(&mut self) -> anyhow::Result<()> {
        // A checkpoint of this iteration that was deleted since is written again.
        if !self.saved.as_deref().is_some_and(checkpoint::has_all_files) {
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
            self.driver.keep_file(RUN, self.run.content()?);
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
        let place = self.run.remote_checkpoint_dir.clone().unwrap_or_else(|| dir.clone());
        self.report.say(&match end {
            End::Met(met) => format!("done: {} is {}, the run stops at {}", met.key, met.value, met.limit),
            End::Done => "done: the last result says so".into(),
            End::Interrupted => "stopped by a signal".into(),
            End::Unread => "stopped because the reader of standard output closed it".into(),
        });
        self.report.say(&format!("run directory: {dir}"));
        if place != dir {
            self.report.say(&format!("kept at:       {place}"));
        }
        self.say_findings();
        let Some(saved) = &self.saved else { return Ok(()) };
        self.report.say(&format!("checkpoint:    {}", saved.display()));
        let trust = self.trust_flag();
        let command_place = quoted(&place);
        self.report.say(&format!("evaluate it:   {program} evaluate {command_place}{trust}"));
        let steps = self.driver.last_result().and_then(timesteps).unwrap_or(0);
        let ended = stretch::ended(self.driver.get_config(), steps);
        if let Some(ended) = &ended {
            self.report.say(&format!("schedules:     {ended}, so a longer run needs longer ones"));
        }
        self.report.say(&match end {
            End::Met(met) => {
                let in_steps =
                    if met.key == "timesteps_total" { "" } else { " --stop timesteps_total=VALUE" };
                let stretched = ended.map(|_| format!("{in_steps} --stretch-schedules")).unwrap_or_default();
                let stop = format!("--stop {}=VALUE{stretched}", met.key);
                format!("train longer:  {program} resume {command_place}{trust} {stop}")
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

    /// Saves the run beside its directory if that was moved or removed. A file that is suddenly missing is the first sign of it,
    /// while the directory is being deleted.
    fn rescue(&mut self, error: Error) -> Error {
        let is_missing = matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound);
        if !is_missing {
            return self.driver.rescue(error);
        }
        let path = self.driver.logdir().to_path_buf();
        let mut gone = Error::RunDirectory { path, moved_to: None, rescued: None };
        for _ in 0..DELETION {
            match self.driver.check_run_dir() {
                Err(error @ Error::RunDirectory { .. }) => {
                    gone = error;
                    break;
                }
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
        self.driver.rescue(gone)
    }

    fn hint_after_failure(&self, error: &anyhow::Error) {
        let dir = match error.downcast_ref() {
            Some(Error::RunDirectory { rescued: Some(place), .. }) => place.as_path(),
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
