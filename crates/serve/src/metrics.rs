//! Counters in the text form of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets of rows per batch.
const ROWS: [f64; 11] = [1., 2., 4., 8., 16., 32., 64., 128., 256., 512., 1024.];
/// Upper bounds of the buckets of seconds per batch.
const SECONDS: [f64; 10] = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.];

/// What the server counts.
#[derive(Debug)]
pub(super) struct Metrics(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// Number of answers by status.
    answers: BTreeMap<u16, u64>,
    rows: u64,
    batches: u64,
    batch_rows: Histogram,
    act_seconds: Histogram,
    /// Number of reloads that failed, and of those that did not.
    reloads: [u64; 2],
}

/// Numbers counted in buckets.
#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    all: u64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], sum: 0.0, all: 0 }
    }

    fn add(&mut self, x: f64) {
        if let Some(at) = self.bounds.iter().position(|&bound| x <= bound) {
            self.counts[at] += 1;
        }
        self.sum += x;
        self.all += 1;
    }

    fn write(&self, text: &mut String, name: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE pavlov_serve_{name} histogram");
        let mut below = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            below += count;
            let _ = writeln!(text, "pavlov_serve_{name}_bucket{{le=\"{bound}\"}} {below}");
        }
        let Self { sum, all, .. } = self;
        let _ = writeln!(
            text,
            "pavlov_serve_{name}_bucket{{le=\"+Inf\"}} {all}\npavlov_serve_{name}_sum {sum}\npavlov_serve_{name}_count {all}"
        );
    }
}

/// What is true at the moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) queue_rows: usize,
    pub(super) sessions: usize,
    pub(super) connections: usize,
    pub(super) version: u64,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Counts {
            answers: BTreeMap::new(),
            rows: 0,
            batches: 0,
            batch_rows: Histogram::new(&ROWS),
            act_seconds: Histogram::new(&SECONDS),
            reloads: [0; 2],
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an answer.
    pub(super) fn answer(&self, status: u16) {
        *self.lock().answers.entry(status).or_default() += 1;
    }

    /// Counts a batch that the policy acted for.
    pub(super) fn batch(&self, rows: usize, took: Duration) {
        let mut counts = self.lock();
        counts.rows += rows as u64;
        counts.batches += 1;
        counts.batch_rows.add(rows as f64);
        counts.act_seconds.add(took.as_secs_f64());
    }

    /// Counts an attempt to load a newer policy.
    pub(super) fn reload(&self, ok: bool) {
        self.lock().reloads[usize::from(ok)] += 1;
    }

    /// The text that Prometheus reads.
    pub(super) fn text(&self, now: Now) -> String {
        let counts = self.lock();
        let mut text = String::from("# TYPE pavlov_serve_requests_total counter\n");
        // Writing to a string cannot fail.
        for (status, count) in &counts.answers {
            let _ = writeln!(text, "pavlov_serve_requests_total{{code=\"{status}\"}} {count}");
        }
        for (name, count) in [("rows", counts.rows), ("batches", counts.batches)] {
            let _ =
                writeln!(text, "# TYPE pavlov_serve_{name}_total counter\npavlov_serve_{name}_total {count}");
        }
        let _ = writeln!(text, "# TYPE pavlov_serve_reloads_total counter");
        for (ok, count) in ["false", "true"].iter().zip(counts.reloads) {
            let _ = writeln!(text, "pavlov_serve_reloads_total{{ok=\"{ok}\"}} {count}");
        }
        counts.batch_rows.write(&mut text, "batch_rows");
        counts.act_seconds.write(&mut text, "act_seconds");
        for (name, value) in [
            ("queue_rows", now.queue_rows as u64),
            ("sessions", now.sessions as u64),
            ("connections", now.connections as u64),
            ("model_version", now.version),
        ] {
            let _ = writeln!(text, "# TYPE pavlov_serve_{name} gauge\npavlov_serve_{name} {value}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_what_is_beyond_the_last_counts_in_all() {
        let metrics = Metrics::new();
        [1, 3, 64, 2000].iter().for_each(|&rows| metrics.batch(rows, Duration::from_micros(20)));
        metrics.answer(200);
        metrics.reload(true);
        let text = metrics.text(Now { queue_rows: 5, sessions: 0, connections: 1, version: 2 });
        for line in [
            "pavlov_serve_batch_rows_bucket{le=\"2\"} 1",
            "pavlov_serve_batch_rows_bucket{le=\"64\"} 3",
            "pavlov_serve_batch_rows_bucket{le=\"1024\"} 3",
            "pavlov_serve_batch_rows_bucket{le=\"+Inf\"} 4",
            "pavlov_serve_batch_rows_sum 2068",
            "pavlov_serve_requests_total{code=\"200\"} 1",
            "pavlov_serve_reloads_total{ok=\"true\"} 1",
            "pavlov_serve_queue_rows 5",
            "pavlov_serve_model_version 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
