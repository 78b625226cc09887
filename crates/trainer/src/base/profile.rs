//! Measured times: those of a worker by activity, and those of a training iteration by phase.
//!
//! A worker reads the clock four times per step of all its copies together, so measuring costs the same with eight
//! copies as with thousands.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::ops::{AddAssign, Div};
use std::time::{Duration, Instant};

/// Time that a worker spent, by activity, summed over steps of all its copies (Ray's `sampler_perf`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerPerf {
    /// Number of steps; one step moves all copies.
    pub steps: u32,
    /// Time of stepping the environments.
    pub env_wait: Duration,
    /// Time of choosing actions by the policy.
    pub inference: Duration,
    /// Time of converting the policy's actions to actions of the environment.
    pub action_processing: Duration,
    /// Time of preprocessing and filtering observations, of counting episodes, and of callbacks of a step.
    pub raw_obs_processing: Duration,
    /// Time of the whole request for a fragment, until its rows are ready for learning.
    pub total: Duration,
}

impl SamplerPerf {
    /// Time of choosing actions and converting them for the environment.
    fn act(&self) -> Duration {
        self.inference + self.action_processing
    }

    /// The results `mean_*_ms`: milliseconds per step of all copies; null if there was no step. Training renders nothing,
    /// so the time of rendering is 0.
    pub(crate) fn report(&self) -> Map<String, Value> {
        let mean = |sum: Duration| (self.steps > 0).then(|| 1e3 * sum.as_secs_f64() / f64::from(self.steps));
        [
            ("mean_raw_obs_processing_ms", mean(self.raw_obs_processing)),
            ("mean_inference_ms", mean(self.inference)),
            ("mean_action_processing_ms", mean(self.action_processing)),
            ("mean_env_wait_ms", mean(self.env_wait)),
            ("mean_env_render_ms", Some(0.0)),
        ]
        .into_iter()
        .map(|(key, mean)| (key.to_owned(), json!(mean)))
        .collect()
    }
}

impl AddAssign for SamplerPerf {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.env_wait += other.env_wait;
        self.inference += other.inference;
        self.action_processing += other.action_processing;
        self.raw_obs_processing += other.raw_obs_processing;
        self.total += other.total;
    }
}

/// Divides every sum by the number of workers, for the mean of workers that took the same number of steps.
impl Div<u32> for SamplerPerf {
    type Output = Self;

    fn div(self, workers: u32) -> Self {
        Self {
            steps: self.steps / workers,
            env_wait: self.env_wait / workers,
            inference: self.inference / workers,
            action_processing: self.action_processing / workers,
            raw_obs_processing: self.raw_obs_processing / workers,
            total: self.total / workers,
        }
    }
}

/// A stopwatch that adds each lap to a sum.
#[derive(Debug)]
pub(crate) struct Laps(Instant);

impl Laps {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Adds the time since the last lap, or since the start, to `sum`.
    pub(crate) fn lap(&mut self, sum: &mut Duration) {
        let now = Instant::now();
        *sum += now - self.0;
        self.0 = now;
    }
}

/// Time that an iteration spent, by phase, as measured by the trainer's own thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Breakdown {
    /// Time of waiting for a fragment of every worker, or of sampling in the trainer's own thread.
    pub(crate) sample: Duration,
    /// Time that the workers spent on sampling, by activity, as the mean of all workers.
    pub(crate) workers: SamplerPerf,
    pub(crate) learn: Duration,
    pub(crate) sync: Duration,
    pub(crate) evaluate: Duration,
    pub(crate) total: Duration,
}

impl Breakdown {
    /// The iteration's seconds by phase; the phases add up to `total_s`.
    ///
    /// Workers sample in parallel, so `env_s`, `act_s` and `postprocess_s` are means over the workers. The rest of the
    /// time of sampling is `wait_s`: waiting for the slowest worker, and putting batches together. `other_s` is the time
    /// that no timer covers: replay, standardising, target updates, statistics.
    pub(crate) fn report(&self) -> Map<String, Value> {
        let env = self.workers.env_wait;
        let act = self.workers.act();
        let timed = self.sample + self.learn + self.sync + self.evaluate;
        [
            ("env_s", env),
            ("act_s", act),
            ("postprocess_s", self.workers.total.saturating_sub(env + act)),
            ("wait_s", self.sample.saturating_sub(self.workers.total)),
            ("learn_s", self.learn),
            ("sync_s", self.sync),
            ("evaluate_s", self.evaluate),
            ("other_s", self.total.saturating_sub(timed)),
            ("total_s", self.total),
        ]
        .into_iter()
        .map(|(key, time)| (key.to_owned(), json!(time.as_secs_f64())))
        .collect()
    }
}
