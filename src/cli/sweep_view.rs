//! Progress of a sweep on standard error: a live table on a terminal, otherwise a line now and then.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use super::output::{end_table, say, show_table};
use crate::tune::{ProgressReporter, SweepProgress, Trial};

/// Maximum number of trials in the live table.
const ROWS: usize = 20;

/// Progress of `pavlov tune`.
pub(super) struct SweepView {
    live: bool,
    /// Time between two tables, or between two lines.
    every: Duration,
    started: Instant,
    shown: Instant,
    /// Command that trains the trial of a number, which is to be appended, alone.
    trial_command: String,
}

impl SweepView {
    pub(super) fn new(trial_command: String) -> Self {
        let live = io::stderr().is_terminal();
        let every = if live { Duration::from_millis(500) } else { Duration::from_secs(30) };
        SweepView { live, every, started: Instant::now(), shown: Instant::now(), trial_command }
    }
}

impl ProgressReporter for SweepView {
    fn report(&mut self, sweep: &SweepProgress<'_>, done: bool) {
        if !done && self.shown.elapsed() < self.every {
            return;
        }
        self.shown = Instant::now();
        let line = format!("{} s: {}", self.started.elapsed().as_secs(), sweep.summary());
        if !self.live {
            return say(&line);
        }
        // A line that wraps takes two lines of the screen, and then the table cannot be drawn over.
        show_table(cut(&format!("{line}\n{}", sweep.table(ROWS)), columns()));
        if done {
            end_table();
        }
    }

    fn message(&mut self, text: &str) {
        say(text);
    }

    fn trial_failed(&mut self, trial: &Trial, text: &str) {
        let number = trial.trial_id.rsplit('_').next().and_then(|number| number.parse::<u64>().ok());
        let number = number.unwrap_or_default();
        say(&format!("{text}\n  alone: {} {number}", self.trial_command));
    }
}

/// Returns the number of columns of the terminal; 80 if it does not say.
fn columns() -> usize {
    terminal_size::terminal_size_of(io::stderr()).map_or(80, |(columns, _)| usize::from(columns.0))
}

/// Cuts each line after `width` characters; a cut line ends with `…`.
fn cut(text: &str, width: usize) -> String {
    let cut = |line: &str| {
        if line.chars().count() <= width {
            return format!("{line}\n");
        }
        line.chars().take(width.saturating_sub(1)).chain(['…', '\n']).collect()
    };
    text.lines().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_the_width_of_the_terminal() {
        let line = "best t_1 with loss 9.25, lr=0.123, gamma=0.99, clip_param=0.2, lambda=0.95, model.fcnet_hiddens=[64,64]";
        for width in [80, 120, 200] {
            let shown = cut(&format!("{line}\nshort\n"), width);
            let lines: Vec<&str> = shown.lines().collect();
            assert!(lines[0].chars().count() <= width && lines[1] == "short", "{shown}");
            assert_eq!(lines[0] == line, width > 100);
        }
    }
}
