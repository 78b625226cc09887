//! What a program shows of a running sweep. The command's table is in the crate `pavlov`.

use std::io::Write;
use std::path::Path;

use super::table::{Columns, Row};
use crate::base::{Trial, TrialStatus};
use crate::schedulers::TrialScheduler;

/// Shows a running sweep to its user, as Ray Tune's `ProgressReporter` does. Without one a sweep prints a line after half a
/// minute, and logs failed trials as warnings.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use pavlov_tune::{ProgressReporter, SweepProgress};
///
/// /// Prints a line every half minute.
/// struct Lines(Instant);
///
/// impl ProgressReporter for Lines {
///     fn report(&mut self, sweep: &SweepProgress<'_>, done: bool) {
///         if done || self.0.elapsed() >= Duration::from_secs(30) {
///             self.0 = Instant::now();
///             eprintln!("{}", sweep.summary());
///         }
///     }
///     fn message(&mut self, text: &str) {
///         eprintln!("{text}");
///     }
/// }
/// ```
pub trait ProgressReporter: Send {
    /// Shows the sweep. Called after every result and ten times a second, so it should return quickly if it has nothing to
    /// show yet. `done` is true for the last call.
    fn report(&mut self, sweep: &SweepProgress<'_>, done: bool);

    /// Shows a message about the sweep.
    fn message(&mut self, text: &str);

    /// Shows that a trial has failed; `text` has the error, the settings, and the file with all failures.
    fn trial_failed(&mut self, trial: &Trial, text: &str) {
        let _ = trial;
        self.message(text);
    }
}

/// State of a running sweep, for a [`ProgressReporter`].
#[derive(Clone, Copy)]
pub struct SweepProgress<'a> {
    trials: &'a [Trial],
    columns: Columns<'a>,
    scheduler: &'a dyn TrialScheduler,
}

impl<'a> SweepProgress<'a> {
    pub(super) fn new(trials: &'a [Trial], columns: Columns<'a>, scheduler: &'a dyn TrialScheduler) -> Self {
        SweepProgress { trials, columns, scheduler }
    }

    /// Returns all trials, the oldest first.
    pub fn trials(&self) -> &'a [Trial] {
        self.trials
    }

    /// Returns one line: how many trials are in which state, what the scheduler says, and the best trial with its metric
    /// and parameters.
    pub fn summary(&self) -> String {
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
            let count = self.trials.iter().filter(is_it).count();
            (count > 0).then(|| format!("{count} {name}"))
        });
        let counted = counted.collect::<Vec<_>>().join(", ");
        let counted = if counted.is_empty() { "no trials yet".into() } else { counted };
        let rows: Vec<Row<'_>> = self.trials.iter().map(row).collect();
        let best = self.columns.best(&rows).map(|best| format!("; {best}")).unwrap_or_default();
        format!("{counted}; {}{best}", self.scheduler.debug_string())
    }

    /// Returns the line that a sweep without a reporter prints once.
    pub(super) fn waiting(&self, dir: &Path) -> String {
        let results = self.trials.iter().filter(|trial| trial.last_result.is_some()).count();
        let so_far = match results {
            0 => "it waits for the first result of a trial".into(),
            count => format!("it waits for the trials to end, and {count} have reported results"),
        };
        format!(
            "the sweep in {} is running: {so_far} ({}). `Tuner::progress_reporter` shows a sweep while it runs",
            dir.display(),
            self.summary()
        )
    }

    /// Returns a table of at most `most` trials, one per line: the best first, then those that run, then the newest.
    pub fn table(&self, most: usize) -> String {
        let mut rows: Vec<Row<'_>> = self.trials.iter().rev().map(row).collect();
        rows.sort_by_key(|row| row.status != TrialStatus::Running);
        if let Some(best) = self.columns.place_of_best(&rows) {
            rows[..=best].rotate_right(1);
        }
        let hidden = rows.len().saturating_sub(most);
        rows.truncate(most);
        let more = if hidden > 0 { format!("... {hidden} more\n") } else { String::new() };
        self.columns.table(&rows) + &more
    }
}

impl std::fmt::Debug for SweepProgress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SweepProgress").field("trials", &self.trials.len()).finish_non_exhaustive()
    }
}

/// Tells the program's `tracing` subscriber, or standard error if none is set.
pub(super) fn notice(text: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::info!("{text}");
    } else {
        // If standard error is closed, there is no place left to tell it.
        drop(writeln!(std::io::stderr(), "pavlov: {text}"));
    }
}

/// Returns the row of a trial for the tables.
pub(super) fn row(trial: &Trial) -> Row<'_> {
    let Trial { trial_id, status, stopped_early, last_result, .. } = trial;
    let config = trial.trained_config();
    Row { trial_id, status: *status, stopped_early: *stopped_early, config, result: last_result.as_ref() }
}

/// Describes the failure of a trial whose directory is `dir`: the message, the settings, and the file with all failures.
pub(super) fn failure(trial: &Trial, dir: &Path, message: &str, again: bool) -> String {
    let settings = serde_json::to_string(&trial.config).unwrap_or_default();
    let then = if again { "it is tried again" } else { "it is given up" };
    format!(
        "trial {} failed, {then}: {message}\n  settings: {settings}\n  all failures: {}",
        trial.trial_id,
        dir.join(super::failures::FILE).display()
    )
}
