//! Progress on standard error: a live bar on a terminal, at most one line per second elsewhere. Or a screen.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{FormattedDuration, HumanCount, ProgressBar, ProgressStyle};
use serde_json::Value;

use super::line::{self, Part, Rank};
use super::output::{say, set_bar};
use super::screen::Beside;
use crate::tune::Metrics;

/// Minimum time between two lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Time without a result after which the first iteration is mentioned.
const FIRST_AFTER: Duration = Duration::from_secs(5);

/// Display of a run's progress: steps, speed and returns.
pub(super) struct Progress {
    view: View,
    /// Environment steps at which the run stops.
    target: Option<u64>,
    started: Instant,
    /// Environment steps trained before this process started.
    steps_before: u64,
    best: Option<f64>,
}

enum View {
    Nothing,
    Lines {
        last: Option<Instant>,
        held_back: Option<String>,
        /// Ends the wait for the first result when it is dropped.
        waiting: Option<Sender<()>>,
    },
    Bar(ProgressBar),
    Screen(Beside),
}

impl Progress {
    /// Starts the display. `target` is the number of environment steps at which the run stops, `steps` those trained before,
    /// and `first` says what happens before the first result.
    pub(super) fn new(quiet: bool, target: Option<f64>, steps: u64, first: String) -> Progress {
        let target = whole(target);
        let view = match (quiet, io::stderr().is_terminal()) {
            (true, _) => View::Nothing,
            (_, false) => View::Lines { last: None, held_back: None, waiting: say_later(first) },
            (_, true) => View::Bar(bar(target, first)),
        };
        Progress { view, target, started: Instant::now(), steps_before: steps, best: None }
    }

    /// Starts the display as the screen of the run in `dir`; lines follow when the reader closes it.
    pub(super) fn on_screen(target: Option<f64>, steps: u64, dir: &Path) -> anyhow::Result<Progress> {
        let view = View::Screen(Beside::open(dir.into()).context("cannot start the screen's thread")?);
        let target = whole(target);
        Ok(Progress { view, target, started: Instant::now(), steps_before: steps, best: None })
    }

    /// Shows the numbers of a result.
    pub(super) fn update(&mut self, result: &Metrics) {
        let steps = timesteps(result).unwrap_or(0);
        let mean = result.get("episode_reward_mean").and_then(Value::as_f64);
        self.best = self.best.into_iter().chain(mean).reduce(f64::max);
        let mut parts = self.parts(steps, mean);
        parts.extend(line::of_learners(result));
        if matches!(&self.view, View::Screen(screen) if screen.is_closed()) {
            self.view = View::Lines { last: None, held_back: None, waiting: None };
        }
        match &mut self.view {
            View::Nothing | View::Screen(_) => {}
            View::Bar(bar) => {
                let columns = columns();
                bar.set_style(style(self.target, columns));
                bar.set_position(steps);
                bar.set_message(line::fit(&parts, columns.saturating_sub(room(self.target, columns))));
            }
            View::Lines { last, held_back, waiting } => {
                *waiting = None;
                let iteration = result.get("training_iteration").and_then(Value::as_u64).unwrap_or(0);
                let line = format!("iteration {iteration}, {}", line::fit(&parts, usize::MAX));
                if last.is_none_or(|last| last.elapsed() >= LINE_EVERY) {
                    *last = Some(Instant::now());
                    *held_back = None;
                    say(&line);
                } else {
                    *held_back = Some(line);
                }
            }
        }
    }

    fn parts(&self, steps: u64, mean: Option<f64>) -> Vec<Part> {
        let done = steps.saturating_sub(self.steps_before) as f64;
        let rate = done / self.started.elapsed().as_secs_f64().max(1e-9);
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let left = self.target.map(|target| target.saturating_sub(steps) as f64 / rate);
        // The time is not finite before the first step, and more than a century is no forecast.
        let eta = left
            .filter(|seconds| *seconds < 3e9)
            .map(|seconds| format!("ETA {}", FormattedDuration(Duration::from_secs_f64(seconds.ceil()))));
        let mut parts = vec![
            Part::new(Rank::Return, format!("mean return {}", shown(mean))),
            Part::new(Rank::Best, format!("best {}", shown(self.best))),
            Part::new(Rank::Steps, format!("{} steps", HumanCount(steps))),
            Part::new(Rank::Speed, format!("{} steps/s", HumanCount(rate as u64))),
        ];
        parts.extend(eta.map(|eta| Part::new(Rank::TimeLeft, eta)));
        parts
    }

    /// Ends the display; the last state stays on the screen.
    pub(super) fn finish(&mut self) {
        match std::mem::replace(&mut self.view, View::Nothing) {
            View::Nothing => {}
            View::Screen(screen) => drop(screen),
            View::Lines { held_back, waiting, .. } => {
                drop(waiting);
                held_back.iter().for_each(|line| say(line));
            }
            View::Bar(bar) => {
                bar.abandon();
                set_bar(None);
            }
        }
    }
}

/// The number of steps at which a run stops.
fn whole(target: Option<f64>) -> Option<u64> {
    target.map(|target| target.max(0.0).ceil() as u64)
}

/// Says `text` unless a result comes before: returns what is to be dropped then. `None` if no thread can be started.
fn say_later(text: String) -> Option<Sender<()>> {
    let (sender, results) = channel::<()>();
    let wait = move || {
        if results.recv_timeout(FIRST_AFTER) == Err(RecvTimeoutError::Timeout) {
            say(&text);
        }
    };
    std::thread::Builder::new().name("first line".into()).spawn(wait).ok().map(|_| sender)
}

/// Number of columns of the terminal; 80 if it does not say.
fn columns() -> usize {
    terminal_size::terminal_size_of(io::stderr()).map_or(80, |(columns, _)| usize::from(columns.0))
}

/// Columns of the bar itself: half as many in a narrow terminal, so that the numbers have room.
fn bar_columns(columns: usize) -> usize {
    if columns < 100 { 10 } else { 20 }
}

/// Columns of a line that stand before its text.
fn room(target: Option<u64>, columns: usize) -> usize {
    // Without a target there is the spinner and a space; the bar has brackets, spaces and a percentage.
    target.map_or(2, |_| 2 + 2 + bar_columns(columns) + 1 + 4 + 1)
}

fn style(target: Option<u64>, columns: usize) -> ProgressStyle {
    let template = match target {
        Some(_) => {
            format!("{{spinner:.cyan}} [{{bar:{}.cyan}}] {{percent:>3}}% {{wide_msg}}", bar_columns(columns))
        }
        None => "{spinner:.cyan} {wide_msg}".into(),
    };
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

fn bar(target: Option<u64>, first: String) -> ProgressBar {
    let bar = target.map_or_else(ProgressBar::no_length, ProgressBar::new);
    let bar = bar.with_style(style(target, columns())).with_message(first);
    bar.enable_steady_tick(Duration::from_millis(200));
    set_bar(Some(bar.clone()));
    bar
}

/// Returns the number of environment steps so far; `None` if the result has none.
pub(super) fn timesteps(result: &Metrics) -> Option<u64> {
    result.get("timesteps_total")?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn progress(target: Option<f64>) -> Progress {
        let mut progress = Progress::new(true, target, 0, String::new());
        progress.started = Instant::now() - Duration::from_secs(100);
        progress
    }

    fn text(progress: &Progress, steps: u64, mean: Option<f64>) -> String {
        line::fit(&progress.parts(steps, mean), usize::MAX)
    }

    #[test]
    fn the_text_holds_steps_rate_mean_best_and_the_time_left() {
        let mut progress = progress(Some(20_000.0));
        for mean in [30.25, 25.0] {
            let result = json!({"timesteps_total": 10_000, "episode_reward_mean": mean});
            progress.update(&serde_json::from_value(result).unwrap());
        }
        // 10,000 steps in 100 s (a moment more): 99 whole steps per second, 10,000 left need 101 s.
        assert_eq!(
            text(&progress, 10_000, Some(25.0)),
            "10,000 steps, mean return 25.0, best 30.2, 99 steps/s, ETA 00:01:41"
        );
    }

    #[test]
    fn without_an_episode_and_a_target_there_is_a_dash_and_no_time_left() {
        assert_eq!(text(&progress(None), 1_000, None), "1,000 steps, mean return -, best -, 9 steps/s");
        assert!(!text(&progress(Some(1e6)), 0, None).contains("ETA"));
    }

    #[test]
    fn a_narrow_terminal_has_a_short_bar_and_its_line_fits() {
        for columns in [80, 120, 200] {
            let left = columns - room(Some(10), columns);
            assert_eq!(left, columns - bar_columns(columns) - 10);
        }
    }
}
