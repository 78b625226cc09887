//! `--profile`: the time of a run's iterations by phase.

use std::fmt::{self, Display};
use std::time::Duration;

use serde_json::Value;

use crate::tune::Metrics;

/// Each phase with its key in `time_breakdown` and the verdict on a run that spends most of its time in it.
const PHASES: [(&str, &str, &str); 8] = [
    ("env", "env_s", "env-bound"),
    ("act", "act_s", "inference-bound"),
    ("postprocess", "postprocess_s", "postprocess-bound"),
    ("wait", "wait_s", "bound by its slowest worker"),
    ("learn", "learn_s", "learner-bound"),
    ("sync", "sync_s", "sync-bound"),
    ("evaluate", "evaluate_s", "evaluation-bound"),
    // Results have no time for logging, because they are written at the end of an iteration.
    ("log", "", "log-bound"),
];

/// Name and verdict of the time that no phase covers.
const OTHER: (&str, &str) = ("other", "bound by what no phase covers");

/// Seconds by phase, summed over iterations; `total` also has the time that no phase covers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Profile {
    iterations: u32,
    seconds: [f64; PHASES.len()],
    total: f64,
}

impl Profile {
    /// Adds an iteration that took `time`, including its loggers, its line of progress and its checkpoint.
    pub(super) fn add(&mut self, result: &Metrics, time: Duration) {
        let of_step =
            |key: &str| result.get("time_breakdown").and_then(|by| by.get(key)).and_then(Value::as_f64);
        let step = result.get("time_this_iter_s").and_then(Value::as_f64).unwrap_or(0.0);
        for ((_, key, _), sum) in PHASES.iter().zip(&mut self.seconds) {
            *sum += match *key {
                "" => (time.as_secs_f64() - step).max(0.0),
                key => of_step(key).unwrap_or(0.0),
            };
        }
        self.iterations += 1;
        self.total += time.as_secs_f64();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.iterations == 0
    }

    /// Returns each phase with its seconds and its verdict; the last one is the time that no phase covers.
    fn parts(&self) -> Vec<(&'static str, f64, &'static str)> {
        let known =
            PHASES.iter().zip(self.seconds).map(|((phase, _, verdict), seconds)| (*phase, seconds, *verdict));
        let left = (self.total - self.seconds.iter().sum::<f64>()).max(0.0);
        known.chain([(OTHER.0, left, OTHER.1)]).collect()
    }

    /// Returns the verdict of the longest phase and its share, e.g. `learner-bound, 71 %`.
    fn verdict(&self) -> String {
        let parts = self.parts();
        let longest = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        longest.map_or(String::new(), |(_, seconds, verdict)| {
            format!("{verdict}, {:.0} %", 100.0 * seconds / self.total)
        })
    }
}

/// Writes a table of the mean iteration, then the verdict.
impl Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12}{:>12}{:>10}", "phase", "s/iteration", "share")?;
        for (phase, seconds, _) in self.parts().into_iter().chain([("total", self.total, "")]) {
            let mean = seconds / f64::from(self.iterations);
            let share = 100.0 * seconds / self.total;
            writeln!(f, "{phase:<12}{mean:>12.6}{share:>8.1} %")?;
        }
        f.write_str(&self.verdict())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An iteration of 1 s, of which the step took 0.9.
    fn profile(breakdown: Value) -> Profile {
        let result = json!({"time_this_iter_s": 0.9, "time_breakdown": breakdown});
        let mut profile = Profile::default();
        for _ in 0..2 {
            profile.add(&serde_json::from_value(result.clone()).unwrap(), Duration::from_secs(1));
        }
        profile
    }

    fn seconds(profile: &Profile, phase: &str) -> f64 {
        profile.parts().iter().find(|(name, ..)| *name == phase).unwrap().1
    }

    #[test]
    fn phases_and_what_is_left_add_up_to_the_whole() {
        let profile = profile(json!({"env_s": 0.2, "act_s": 0.1, "learn_s": 0.3, "sync_s": 0.05}));
        // Two iterations: log is what the step did not take, 2 x 0.1 s; other is 2 x (1 - 0.65 - 0.1) s.
        for (phase, wanted) in [("env", 0.4), ("learn", 0.6), ("wait", 0.0), ("log", 0.2), ("other", 0.5)] {
            assert!((seconds(&profile, phase) - wanted).abs() < 1e-12, "{phase}");
        }
        let sum: f64 = profile.parts().iter().map(|(_, seconds, _)| seconds).sum();
        assert!((sum - 2.0).abs() < 1e-12, "{sum}");
        let text = profile.to_string();
        let row = |phase: &str| text.lines().find(|line| line.starts_with(phase)).unwrap();
        assert!(row("env").ends_with("0.200000    20.0 %"), "{text}");
        assert!(row("total").ends_with("1.000000   100.0 %"), "{text}");
    }

    #[test]
    fn the_verdict_names_the_longest_phase_and_its_share() {
        assert_eq!(profile(json!({"learn_s": 0.71, "env_s": 0.1})).verdict(), "learner-bound, 71 %");
        assert_eq!(profile(json!({"learn_s": 0.1, "env_s": 0.6})).verdict(), "env-bound, 60 %");
        assert_eq!(profile(json!({})).verdict(), "bound by what no phase covers, 90 %");
    }

    #[test]
    fn a_result_without_a_breakdown_has_only_log_and_other() {
        let mut profile = Profile::default();
        profile.add(&Metrics::from([("time_this_iter_s", 0.75)]), Duration::from_secs(1));
        assert_eq!((seconds(&profile, "log"), seconds(&profile, "other")), (0.25, 0.75));
    }
}
