//! Progress on standard error: a live bar on a terminal, at most one line per second elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{FormattedDuration, HumanCount, ProgressBar, ProgressStyle};
use serde_json::Value;

use super::output::{say, set_bar};
use crate::tune::Metrics;

/// Minimum time between two lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Keys of `learner_stats` that are shown, and their names.
const LEARNER: [(&str, &str); 4] = [
    ("kl", "KL"),
    ("clip_fraction", "clip fraction"),
    ("vf_explained_var", "explained variance"),
    ("mean_q", "mean Q"),
];

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
    Lines { last: Option<Instant>, held_back: Option<String> },
    Bar(ProgressBar),
}

impl Progress {
    /// Starts the display. `target` is the number of environment steps at which the run stops, `steps` those trained before.
    pub(super) fn new(quiet: bool, target: Option<f64>, steps: u64) -> Progress {
        let target = target.map(|target| target.max(0.0).ceil() as u64);
        let view = match (quiet, io::stderr().is_terminal()) {
            (true, _) => View::Nothing,
            (_, false) => View::Lines { last: None, held_back: None },
            (_, true) => View::Bar(bar(target)),
        };
        Progress { view, target, started: Instant::now(), steps_before: steps, best: None }
    }

    /// Shows the numbers of a result.
    pub(super) fn update(&mut self, result: &Metrics) {
        let steps = timesteps(result).unwrap_or(0);
        let mean = result.get("episode_reward_mean").and_then(Value::as_f64);
        self.best = self.best.into_iter().chain(mean).reduce(f64::max);
        let text = self.text(steps, mean) + &Self::learner(result);
        match &mut self.view {
            View::Nothing => {}
            View::Bar(bar) => {
                bar.set_position(steps);
                bar.set_message(text);
            }
            View::Lines { last, held_back } => {
                let iteration = result.get("training_iteration").and_then(Value::as_u64).unwrap_or(0);
                let line = format!("iteration {iteration}, {text}");
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

    fn text(&self, steps: u64, mean: Option<f64>) -> String {
        let done = steps.saturating_sub(self.steps_before) as f64;
        let rate = done / self.started.elapsed().as_secs_f64().max(1e-9);
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let left = self.target.map(|target| target.saturating_sub(steps) as f64 / rate);
        // The time is not finite before the first step, and more than a century is no forecast.
        let eta = left
            .filter(|seconds| *seconds < 3e9)
            .map(|seconds| format!(", ETA {}", FormattedDuration(Duration::from_secs_f64(seconds.ceil()))));
        format!(
            "{} steps, {} steps/s, mean return {} (best {}){}",
            HumanCount(steps),
            HumanCount(rate as u64),
            shown(mean),
            shown(self.best),
            eta.unwrap_or_default()
        )
    }

    /// Returns the learner's statistics if exactly one policy is trained: `, KL 0.012, clip fraction 0.100`.
    fn learner(result: &Metrics) -> String {
        let policies = result.get("info").and_then(|info| info["learner"].as_object());
        let Some((1, Some(policy))) = policies.map(|all| (all.len(), all.values().next())) else {
            return String::new();
        };
        let shown = LEARNER.iter().filter_map(|(key, name)| {
            let value = policy["learner_stats"][key].as_f64()?;
            Some(format!(", {name} {value:.3}"))
        });
        shown.collect()
    }

    /// Ends the display; the last state stays on the screen.
    pub(super) fn finish(&mut self) {
        match std::mem::replace(&mut self.view, View::Nothing) {
            View::Nothing => {}
            View::Lines { held_back, .. } => held_back.iter().for_each(|line| say(line)),
            View::Bar(bar) => {
                bar.abandon();
                set_bar(None);
            }
        }
    }
}

fn bar(target: Option<u64>) -> ProgressBar {
    let (bar, template) = match target {
        Some(target) => (ProgressBar::new(target), "{spinner} [{bar:20}] {percent:>3}% {wide_msg}"),
        None => (ProgressBar::no_length(), "{spinner} {wide_msg}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = bar.with_style(style.progress_chars("=> ")).with_message("first iteration");
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
        let mut progress = Progress::new(true, target, 0);
        progress.started = Instant::now() - Duration::from_secs(100);
        progress
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
            progress.text(10_000, Some(25.0)),
            "10,000 steps, 99 steps/s, mean return 25.0 (best 30.2), ETA 00:01:41"
        );
    }

    #[test]
    fn the_line_shows_kl_clip_fraction_and_explained_variance_of_the_only_policy() {
        let stats = json!({"kl": 0.01234, "clip_fraction": 0.1, "vf_explained_var": -0.5, "entropy": 1.0});
        let of = |learner: Value| {
            let result = json!({"info": {"learner": learner}});
            Progress::learner(&serde_json::from_value(result).unwrap())
        };
        let one = json!({"learner_stats": stats});
        let shown = ", KL 0.012, clip fraction 0.100, explained variance -0.500";
        assert_eq!(of(json!({"default_policy": one})), shown);
        assert_eq!(of(json!({"a": one, "b": one})), "");
        assert_eq!(of(json!({})), "");
    }

    #[test]
    fn without_an_episode_and_a_target_there_is_a_dash_and_no_time_left() {
        assert_eq!(progress(None).text(1_000, None), "1,000 steps, 9 steps/s, mean return - (best -)");
        assert!(!progress(Some(1e6)).text(0, None).contains("ETA"));
    }
}
