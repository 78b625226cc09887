//! Progress output of a sweep on standard error: a live table on a terminal, otherwise a line now and then.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::table::{self, Columns, Row};
use crate::schedulers::TrialScheduler;
use crate::{Metrics, Objective, Trial, TrialStatus, metric};

/// Maximum number of trials in the live table.
const ROWS: usize = 20;

pub(super) struct Progress {
    verbose: u8,
    objective: Option<Objective>,
    space: Value,
    /// Command that trains a failed trial alone, for messages.
    replay_command: Option<String>,
    live: bool,
    every: Duration,
    started: Instant,
    shown: Option<Instant>,
    /// Number of lines of the table that are on the screen.
    lines: usize,
}

impl Progress {
    pub(super) fn new(verbose: u8, columns: Columns<'_>, replay_command: Option<String>) -> Self {
        let Columns { space, objective } = columns;
        let live = std::io::stderr().is_terminal();
        let every = if live { Duration::from_millis(500) } else { Duration::from_secs(30) };
        let started = Instant::now();
        let space = space.clone();
        let objective = objective.cloned();
        Progress { verbose, objective, space, replay_command, live, every, started, shown: None, lines: 0 }
    }

    /// Prints a line above the table.
    pub(super) fn say(&mut self, text: &str) {
        if self.verbose > 0 {
            self.clear();
            write_stderr(&format!("{text}\n"));
        }
    }

    pub(super) fn result(&mut self, trial: &Trial, result: &Metrics) {
        if self.verbose < 2 {
            return;
        }
        let shown = |key: &str| metric::find(result, key).map_or(String::new(), table::cell);
        let value =
            self.objective.as_ref().map(|Objective { metric, .. }| format!(", {metric} {}", shown(metric)));
        let value = value.unwrap_or_default();
        self.say(&format!("{}: iteration {}{value}", trial.trial_id, shown("training_iteration")));
    }

    /// Prints a failed trial's message, settings, error file and, if known, the command that trains it alone.
    pub(super) fn failure(&mut self, trial: &Trial, dir: &Path, message: &str, again: bool) {
        let settings = serde_json::to_string(&trial.config).unwrap_or_default();
        let then = if again { "it is tried again" } else { "it is given up" };
        let mut text = format!(
            "trial {} failed, {then}: {message}\n  settings: {settings}\n  all failures: {}",
            trial.trial_id,
            dir.join(super::failures::FILE).display()
        );
        if let Some(command) = &self.replay_command {
            let number = trial.trial_id.rsplit('_').next().and_then(|number| number.parse::<u64>().ok());
            let number = number.unwrap_or_default().to_string();
            text += &format!("\n  alone: {}", command.replace("{number}", &number));
        }
        self.say(&text);
    }

    pub(super) fn tick(&mut self, trials: &[Trial], scheduler: &dyn TrialScheduler) {
        let since = self.shown.unwrap_or(self.started);
        if self.verbose > 0 && since.elapsed() >= self.every {
            self.show(trials, scheduler);
        }
    }

    pub(super) fn end(&mut self, trials: &[Trial], scheduler: &dyn TrialScheduler) {
        if self.verbose > 0 {
            self.show(trials, scheduler);
            self.lines = 0;
        }
    }

    fn show(&mut self, trials: &[Trial], scheduler: &dyn TrialScheduler) {
        self.shown = Some(Instant::now());
        let columns = self.columns();
        let rows: Vec<Row<'_>> = trials.iter().map(row).collect();
        let best = columns.best(&rows).map(|best| format!("; {best}")).unwrap_or_default();
        let mut text = format!("{}{best}\n", self.summary(trials, scheduler));
        if self.live {
            text += &self.table(trials, columns);
        }
        if self.live {
            // A line that wraps takes two lines of the screen, and then the table cannot be drawn over.
            text = table::cut(&text, columns_of_terminal());
        }
        self.clear();
        write_stderr(&text);
        self.lines = if self.live { text.lines().count() } else { 0 };
    }

    fn clear(&mut self) {
        if self.lines > 0 {
            write_stderr(&format!("\x1b[{}A\x1b[J", self.lines));
            self.lines = 0;
        }
    }

    fn summary(&self, trials: &[Trial], scheduler: &dyn TrialScheduler) -> String {
        const NAMES: [(TrialStatus, bool, &str); 6] = [
            (TrialStatus::Running, false, "running"),
            (TrialStatus::Pending, false, "pending"),
            (TrialStatus::Paused, false, "paused"),
            (TrialStatus::Terminated, false, "finished"),
            (TrialStatus::Terminated, true, "stopped early"),
            (TrialStatus::Error, false, "failed"),
        ];
        let counted = NAMES.iter().filter_map(|(status, early, name)| {
            let is_it = |trial: &&Trial| trial.status == *status && trial.stopped_early == *early;
            let count = trials.iter().filter(is_it).count();
            (count > 0).then(|| format!("{count} {name}"))
        });
        let counted = counted.collect::<Vec<_>>().join(", ");
        let seconds = self.started.elapsed().as_secs();
        let counted = if counted.is_empty() { "no trials yet".into() } else { counted };
        format!("{seconds} s: {counted}; {}", scheduler.debug_string())
    }

    /// Table with the best trial first, then the running trials, then the newest.
    fn table(&self, trials: &[Trial], columns: Columns<'_>) -> String {
        let mut rows: Vec<Row<'_>> = trials.iter().rev().map(row).collect();
        rows.sort_by_key(|row| row.status != TrialStatus::Running);
        if let Some(best) = columns.place_of_best(&rows) {
            rows[..=best].rotate_right(1);
        }
        let hidden = rows.len().saturating_sub(ROWS);
        rows.truncate(ROWS);
        let more = if hidden > 0 { format!("... {hidden} more\n") } else { String::new() };
        columns.table(&rows) + &more
    }

    fn columns(&self) -> Columns<'_> {
        Columns { space: &self.space, objective: self.objective.as_ref() }
    }
}

/// Number of columns of the terminal; 80 if it does not say.
fn columns_of_terminal() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(columns, _)| usize::from(columns.0))
}

/// Row of a trial for the tables.
pub(super) fn row(trial: &Trial) -> Row<'_> {
    let Trial { trial_id, status, stopped_early, config, last_result, .. } = trial;
    Row { trial_id, status: *status, stopped_early: *stopped_early, config, result: last_result.as_ref() }
}

/// Writes to standard error. Errors are ignored, so that a sweep continues if standard error is closed.
fn write_stderr(text: &str) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
