//! Rows of `result.json`, compared with training again, with the copies in checkpoints, and with `progress.csv`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::state_difference::{short, walk};
use crate::tune::loggers::{read_results, table_differences};
use crate::tune::{Config, Metrics, checkpoint};

/// Largest number of keys that are named of one row.
const MAX_KEYS: usize = 5;

/// Numbers that no two runs share: times and speeds, the machine, and how often it failed.
const MEASURED: &[&str] = &[
    "date",
    "engine",
    "experiment_id",
    "hostname",
    "iterations_since_restore",
    "learner_queue",
    "node_ip",
    "num_healthy_learners",
    "num_healthy_workers",
    "num_learner_restarts",
    "num_remote_worker_restarts",
    "perf",
    "pid",
    "same_bits_on",
    "sampler_perf",
    "time_breakdown",
    "time_since_restore",
    "time_this_iter_s",
    "time_total_s",
    "timers",
    "timestamp",
    "timesteps_since_restore",
    "trial_id",
    "warmup_time",
];

/// The rows of a run, and what each was compared with.
pub(super) struct Rows {
    /// Each row with the number of its line, from 1.
    rows: Vec<(usize, Metrics)>,
    /// Whether there is a `result.json`.
    is_there: bool,
    /// Indices of the rows of `result.json` that this command has trained again and compared.
    trained: BTreeSet<usize>,
    /// Lines whose copies checkpoints hold.
    copied: BTreeSet<usize>,
}

impl Rows {
    /// Reads the rows of the run in `run_dir`.
    pub(super) fn read(run_dir: &Path) -> anyhow::Result<Rows> {
        let is_there = run_dir.join("result.json").exists();
        let rows = if is_there { read_results(run_dir)? } else { Vec::new() };
        let rows = (1..).zip(rows).collect();
        Ok(Rows { rows, is_there, trained: BTreeSet::new(), copied: BTreeSet::new() })
    }

    pub(super) fn last_iteration(&self) -> Option<u64> {
        self.rows.iter().rev().find_map(|(_, row)| iteration(row))
    }

    /// The settings in the last row, if no checkpoint is as late.
    pub(super) fn settings_after(&self, last_checkpoint: u64) -> Option<Config> {
        let (_, row) = self.rows.last()?;
        if iteration(row)? > last_checkpoint {
            Some(row.get("config")?.as_object()?.clone().into())
        } else {
            None
        }
    }

    /// Compares rows with the copies in checkpoints, which have every number.
    pub(super) fn against_checkpoints(&mut self, checkpoints: &[PathBuf]) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for path in checkpoints {
            let Some(copy) = checkpoint::metadata(path)?.last_result else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let lines = self.compare(&copy, &[], &format!("{name} has"), &mut found);
            self.copied.extend(lines);
        }
        Ok(found)
    }

    /// Compares rows with the results of training again.
    pub(super) fn against_training(&mut self, trained: &[Metrics]) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for result in trained {
            // The same way to text and back as the row has gone.
            let result: Metrics = serde_json::from_slice(&serde_json::to_vec(result)?)?;
            let lines = self.compare(&result, MEASURED, "trained again", &mut found);
            self.trained.extend(lines);
        }
        Ok(found)
    }

    /// Compares the rows of one iteration with `expected`, but for the keys `skipped`, and returns their lines. `words` stand
    /// before the other value.
    fn compare(
        &self,
        expected: &Metrics,
        skipped: &[&str],
        words: &str,
        found: &mut Vec<String>,
    ) -> Vec<usize> {
        if !self.is_there {
            return Vec::new();
        }
        let wanted = iteration(expected);
        let rows: Vec<_> = self.rows.iter().filter(|(_, row)| iteration(row) == wanted).collect();
        if rows.is_empty() {
            found.push(format!("result.json has no row of iteration {}", wanted.unwrap_or_default()));
        }
        for (line, row) in &rows {
            let (here, there) = (Value::Object((**row).clone()), Value::Object((**expected).clone()));
            let mut differences = Vec::new();
            walk("", &here, &there, &mut |key, here, there| {
                if !key.split('.').any(|part| skipped.contains(&part)) {
                    let line = format!(
                        "result.json, row {line}: {key} is {}, {words} {}",
                        short(here),
                        short(there)
                    );
                    differences.push(line);
                }
            });
            let more = differences.len().saturating_sub(MAX_KEYS);
            differences.truncate(MAX_KEYS);
            if more > 0 {
                differences.push(format!("result.json, row {line}: {more} more keys differ"));
            }
            found.append(&mut differences);
        }
        rows.into_iter().map(|(line, _)| *line).collect()
    }

    /// Compares `progress.csv` with the rows, if it is there.
    pub(super) fn against_table(&self, run_dir: &Path) -> anyhow::Result<Vec<String>> {
        Ok(if self.is_there { table_differences(run_dir)? } else { Vec::new() })
    }

    /// Says which rows were compared with what.
    pub(super) fn summary(&self) -> String {
        if !self.is_there {
            return "there is no result.json, so no row was compared".into();
        }
        let all = self.rows.iter().map(|(line, _)| *line);
        let rest = all.filter(|line| !self.trained.contains(line) && !self.copied.contains(line)).collect();
        let copied = self.copied.difference(&self.trained).copied().collect();
        let mut parts = Vec::new();
        for (lines, what) in [
            (&self.trained, "trained again"),
            (&copied, "compared with the copies in checkpoints"),
            (&rest, "compared with nothing (`--all` trains everything)"),
        ] {
            if !lines.is_empty() {
                parts.push(format!("{} {what}", ranges(lines)));
            }
        }
        match parts.as_slice() {
            [] => "result.json has no rows".into(),
            parts => format!("rows of result.json: {}", parts.join("; ")),
        }
    }
}

fn iteration(row: &Metrics) -> Option<u64> {
    row.get("training_iteration")?.as_u64()
}

/// Lists numbers as ranges: `1 to 4, 6`.
fn ranges(numbers: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first} to {last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_as_ranges() {
        assert_eq!(ranges(&BTreeSet::from([1, 2, 3, 5, 7, 8])), "1 to 3, 5, 7 to 8");
    }
}
