//! [`WorkerSet`]: a handle to the rollout workers, the policies that learn, and the counters of a run, which is cheap
//! to clone.

mod batch_log;
mod fleet;
mod fleet_state;
mod health;
mod learner_group;
mod learner_queue;
mod learners;
mod learners_state;
mod ledger;
mod metrics;
mod transport;
pub mod wire;

pub(crate) use batch_log::BatchLog;
pub use fleet::Order;
pub(crate) use learner_queue::LearnerQueue;
pub use learners::Learners;
pub use ledger::Ledger;
pub use metrics::{Counters, PolicyCounters};
pub(crate) use transport::serve;
pub use transport::{Completion, Fault, ProcessPool, RayPool, ThreadPool, WorkerPool, check_worker_pool};

use crate::base::notice;
use crate::experience::TrainBatch;
use crate::policy::Policy;
use crate::replay::SharedReplay;
use crate::sample::EnvRunner;
pub use crate::sample::{
    Code, Evaluation, EvaluationTask, FilterStats, Follow, MeanStdFilter, Reply, Request, RolloutWorker,
    RunningStat, Sampled, WorkerNames, WorkerSpec,
};
use crate::settings::{
    Common, CountStepsBy, MultiAgentConfig, ObservationFilter, ReplayBufferConfig, ReplayMode,
};
use crate::workers::fleet::Fleet;
use pavlov_learn::base::{Device, Error, Result, Weights, lock};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Number of steps per environment copy without a row of a policy that learns, after which the user is warned; after
/// five times as many steps the run ends with an error.
const UNSEATED: u64 = 10_000;

/// The rollout workers, the policies that learn, and the counters of a run. A clone shares them, so every step of a
/// plan can own a handle to the whole set or to a part of it.
///
/// Without rollout workers the environments run in the thread of the plan, and agents act there by the learning
/// policies themselves.
///
/// [`execution_plan`](crate::Trainer::execution_plan) gets a worker set. One round of a plan may look like this:
///
/// ```no_run
/// use pavlov_trainer::{batch::DEFAULT_POLICY, prelude::*};
///
/// fn one_round(workers: &WorkerSet) -> Result<()> {
///     let batch = workers.sample()?.single()?;
///     workers.learners.learn_on_batch(DEFAULT_POLICY, &batch)?;
///     workers.sync_weights()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct WorkerSet {
    /// The policies that learn.
    pub learners: Learners,
    /// The counters, timers and episodes of the run.
    pub ledger: Ledger,
    fleet: Arc<Mutex<Fleet>>,
    /// Whether there are rollout workers, which can be asked here without the lock of `fleet`.
    has_workers: bool,
    /// The common settings of the run.
    common: Arc<Common>,
    /// Seed of the run.
    seed: u64,
}

impl WorkerSet {
    /// Makes policies that learn on `device`, and `spec.names.common.num_workers` rollout workers on the transport
    /// `spec.names.common.workers`.
    ///
    /// # Errors
    /// Fails if the environment, a policy, a thread or a process cannot be made, or a hook fails.
    pub fn new(spec: &WorkerSpec, device: Device) -> Result<Self> {
        Self::over(spec, device, transport::workers(spec)?)
    }

    /// Makes policies that learn on `device`, with the rollout workers of `pool`.
    ///
    /// # Errors
    /// Fails if a learning policy or the environment of the plan's own thread cannot be made, or a hook fails.
    pub fn over(spec: &WorkerSpec, device: Device, pool: Box<dyn WorkerPool>) -> Result<Self> {
        let with_env = spec.names.sampling && (pool.is_empty() || spec.names.common.create_env_on_driver);
        let learners = Learners::new(spec, device)?;
        let has_workers = !pool.is_empty();
        let local =
            learners.lend(|policies, hooks| EnvRunner::new(spec.clone(), 0, with_env, policies, hooks))?;
        Ok(Self {
            fleet: Arc::new(Mutex::new(Fleet::new(pool, &spec.names.common, local, learners.clone()))),
            learners,
            ledger: Ledger::default(),
            has_workers,
            common: Arc::new(spec.names.common.clone()),
            seed: spec.seed(),
        })
    }

    /// The common settings of the run.
    pub fn common(&self) -> &Common {
        &self.common
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Samples one fragment with every rollout worker, or with the trainer's own environments if there are no workers.
    /// The batch has the rows in the order of the environment copies. With `sample_async` the workers begin the next
    /// fragment before this call returns.
    ///
    /// # Errors
    /// Returns [`Error::Worker`] if a worker fails and neither `recreate_failed_workers` nor
    /// `ignore_worker_failures` lets the run go on. Without rollout workers it fails if an environment, a policy or a
    /// hook does.
    pub fn sample(&self) -> Result<TrainBatch> {
        let start = Instant::now();
        let timestep = self.counters().num_env_steps_sampled;
        let mut fleet = lock(&self.fleet);
        let mut parts = fleet.round(timestep)?;
        let steps = parts.iter().map(|part| part.batch.env_steps).sum();
        if self.common.sample_async {
            fleet.ask_ahead(timestep + steps)?;
        }
        drop(fleet);
        let workers = parts.len();
        self.ledger.sampled(&mut parts, workers);
        let batch = TrainBatch::concat(parts.into_iter().map(|part| part.batch).collect());
        self.ledger.time("sample", start, steps);
        let batch = batch?;
        self.check_seated(&batch)?;
        Ok(batch)
    }

    /// Returns an error if training would wait for rows for ever, because no agent acts by a policy that learns; warns
    /// before that.
    fn check_seated(&self, batch: &TrainBatch) -> Result<()> {
        let (before, now) = self.ledger.steps_without_rows(batch);
        let MultiAgentConfig { count_steps_by, .. } = &self.common.multiagent;
        let (key, value, way_out) = match (count_steps_by, self.common.min_train_timesteps_per_reporting) {
            (CountStepsBy::AgentSteps, _) => {
                ("multiagent.count_steps_by", "\"agent_steps\"".to_owned(), "count \"env_steps\"")
            }
            (CountStepsBy::EnvSteps, Some(steps)) => {
                ("min_train_timesteps_per_reporting", steps.to_string(), "set it to null")
            }
            (CountStepsBy::EnvSteps, None) => return Ok(()),
        };
        let copies = self.common.total_envs() as u64;
        let rule = |steps: u64| {
            format!(
                "its steps are those of the policies that learn ({}), and no agent has acted by one of them in {steps} steps of \
                 each environment copy: training waits for ever. Seat them in `multiagent.policy_mapping_fn`, or {way_out}",
                self.learners.to_train().join(", ")
            )
        };
        if (before + 1..=now).contains(&(UNSEATED * copies)) {
            notice(&format!("`{key}` is {value}, but {}", rule(UNSEATED)));
        }
        if now >= 5 * UNSEATED * copies { Err(Error::config(key, value, rule(5 * UNSEATED))) } else { Ok(()) }
    }

    /// Returns the next fragment of one rollout worker, and asks that worker for another fragment, so that each worker
    /// has `in_flight` fragments waiting or under way. Without rollout workers it does the same as
    /// [`sample`](Self::sample).
    ///
    /// # Errors
    /// Fails whenever [`sample`](Self::sample) does.
    pub fn sample_next(&self, in_flight: usize, order: Order) -> Result<TrainBatch> {
        let start = Instant::now();
        let timestep = self.counters().num_env_steps_sampled;
        let mut fleet = lock(&self.fleet);
        if fleet.is_empty() {
            drop(fleet);
            return self.sample();
        }
        let mut part = fleet.take(in_flight, order, timestep)?;
        let workers = fleet.up().len();
        drop(fleet);
        self.ledger.sampled(std::slice::from_mut(&mut part), workers);
        self.ledger.time("sample", start, part.batch.env_steps);
        self.check_seated(&part.batch)?;
        Ok(part.batch)
    }

    /// Publishes the weights if this is at least the `interval`-th call since the policies first learned after the last
    /// publication. Always tells the policies the number of environment steps sampled. A worker gets the weights with
    /// its next request for a fragment; the plan does not wait.
    ///
    /// # Errors
    /// Never fails today: weights are sent with the next requests for fragments.
    pub fn broadcast_weights(&self, interval: usize) -> Result<()> {
        let start = Instant::now();
        if self.has_workers && self.learners.broadcast(interval) {
            self.ledger.count(|c| c.num_weight_syncs += 1);
            self.ledger.time("synch_weights", start, 0);
        }
        self.tell_time();
        Ok(())
    }

    /// Tells the learning policies the number of environment steps sampled so far, on which schedules depend.
    pub(crate) fn tell_time(&self) {
        self.learners.tell_time(self.counters().num_env_steps_sampled);
    }

    /// Sends the weights to every rollout worker if the policies have learned since weights were sent last, and always
    /// tells the policies the number of environment steps sampled.
    ///
    /// # Errors
    /// Returns [`Error::Worker`] if a worker fails and no setting lets the run go on without it.
    pub fn sync_weights(&self) -> Result<()> {
        let start = Instant::now();
        let mut fleet = lock(&self.fleet);
        if !fleet.is_empty() && self.learners.publish() {
            fleet.send_weights()?;
            self.ledger.count(|c| c.num_weight_syncs += 1);
            self.ledger.time("synch_weights", start, 0);
        }
        drop(fleet);
        self.tell_time();
        Ok(())
    }

    /// Merges the statistics that the workers' observation filters have gathered, in the order of the workers; with
    /// `synchronize_filters` sends the result back to the workers.
    ///
    /// # Errors
    /// Returns [`Error::Worker`] if a worker fails and no setting lets the run go on without it.
    pub fn sync_filters(&self) -> Result<()> {
        if self.common.observation_filter == ObservationFilter::NoFilter {
            return Ok(());
        }
        let start = Instant::now();
        let mut fleet = lock(&self.fleet);
        fleet.sync_filters(self.common.synchronize_filters)?;
        if !fleet.is_empty() {
            self.ledger.time("synch_filters", start, 0);
        }
        Ok(())
    }

    /// Sets the task of all environments that sample for training, each from its next episode on; checkpoints store the
    /// task. Evaluations make environments of their own, which keep their initial task.
    ///
    /// # Errors
    /// Fails if [`Env::set_task`](pavlov_envs::Env::set_task) does, or if a worker cannot be reached.
    pub fn set_task(&self, task: impl Into<Value>) -> Result<()> {
        lock(&self.fleet).set_task(Arc::new(task.into()))
    }

    /// The task of the last call of [`set_task`](Self::set_task); `None` before the first call.
    pub fn task(&self) -> Option<Arc<Value>> {
        lock(&self.fleet).task()
    }

    /// Plays the evaluation episodes of `task` on the rollout workers, or in this thread if there are none.
    ///
    /// # Errors
    /// Fails whenever [`sample`](Self::sample) does, and if an episode does not end.
    pub fn evaluate(&self, task: &EvaluationTask) -> Result<Evaluation> {
        let mut fleet = lock(&self.fleet);
        if fleet.is_empty() {
            return self.learners.lend(|policies, _| fleet.local().evaluate(policies, task));
        }
        // The w-th of W workers plays every W-th episode; the episodes of a lost worker are given to the others.
        let mut all = Evaluation::default();
        let mut left = task.episodes.clone();
        while !left.is_empty() {
            let up = fleet.up();
            let share = |worker: usize| {
                let first = up.iter().position(|&w| w == worker).unwrap_or_default();
                let episodes: Vec<u64> = left.iter().copied().skip(first).step_by(up.len()).collect();
                // Pictures show the first episode only.
                let frames = if episodes.first() == task.episodes.first() { task.frames } else { 0 };
                Request::Evaluate(EvaluationTask { episodes, frames, ..task.clone() })
            };
            for reply in fleet.ask_all(share)?.into_values() {
                let Reply::Evaluation(part) = reply else { continue };
                all.episodes.extend(part.episodes);
                all.frames.extend(part.frames);
                all.render_fps = all.render_fps.or(part.render_fps);
            }
            left.retain(|number| !all.episodes.iter().any(|e| e.number == *number));
        }
        all.episodes.sort_by_key(|e| e.number);
        Ok(all)
    }

    /// Returns the replay buffers of all policies that learn; see [`replay_buffer_of`](Self::replay_buffer_of).
    pub fn replay_buffer(&self, config: &ReplayBufferConfig, store_in_checkpoints: bool) -> SharedReplay {
        let lockstep = self.common.multiagent.replay_mode == ReplayMode::Lockstep;
        self.learners.to_train().iter().fold(SharedReplay::default().in_lockstep(lockstep), |all, id| {
            all.with(id.clone(), self.learners.replay_buffer(id, config, store_in_checkpoints))
        })
    }

    /// Returns the replay buffer of the policy `id`; the first call makes it. With `store_in_checkpoints` its rows are
    /// saved and restored with the run.
    pub fn replay_buffer_of(
        &self,
        id: &str,
        config: &ReplayBufferConfig,
        store_in_checkpoints: bool,
    ) -> SharedReplay {
        SharedReplay::default().with(id, self.learners.replay_buffer(id, config, store_in_checkpoints))
    }

    /// Calls `f` with the learning policy `id`, which counts as learning; see [`Learners::with_policy`].
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if no policy has this id.
    pub fn with_policy<T>(&self, id: &str, f: impl FnOnce(&mut dyn Policy) -> T) -> Result<T> {
        self.learners.with_policy(id, f)
    }

    /// Returns a copy of the counters.
    pub fn counters(&self) -> Counters {
        self.ledger.counters()
    }

    /// Number of rollout workers that can answer now: neither lost nor waiting to be replaced.
    pub fn num_healthy_workers(&self) -> usize {
        lock(&self.fleet).healthy()
    }

    /// Number of times that a rollout worker was replaced.
    pub fn num_worker_restarts(&self) -> u64 {
        lock(&self.fleet).restarts()
    }

    /// Number of processes that learn together, including the trainer.
    pub fn num_healthy_learners(&self) -> usize {
        self.learners.healthy()
    }

    /// Number of times that the learners in other processes were restarted.
    pub fn num_learner_restarts(&self) -> u64 {
        self.learners.restarts()
    }

    /// The weights of all learning policies.
    pub fn get_weights(&self) -> Weights {
        self.learners.get_weights()
    }

    /// Replaces the weights of the learning policies and of every rollout worker.
    ///
    /// # Errors
    /// Returns [`Error::State`] if a parameter is missing or has another shape, and
    /// [`Error::Worker`] if a worker fails and no setting lets the run go on without it.
    pub fn set_weights(&self, weights: &Weights) -> Result<()> {
        self.learners.with_policies(|policies| policies.set_weights(weights))?;
        self.sync_weights()
    }

    /// Statistics of the trainer's observation filters, by policy id: those merged from the workers, if there are
    /// workers.
    pub fn filters(&self) -> FilterStats {
        lock(&self.fleet).local().filter_stats()
    }

    /// Replaces the statistics of the observation filters, given by policy id, in the trainer and in every worker.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the number of features differs, and [`Error::Worker`] if a worker fails and no
    /// setting lets the run go on without it.
    pub fn set_filters(&self, stats: &FilterStats) -> Result<()> {
        lock(&self.fleet).set_filters(stats)
    }

    /// Whether a worker or learner has failed and no setting lets the run go on without it.
    pub fn are_broken(&self) -> bool {
        lock(&self.fleet).is_broken() || self.learners.are_broken()
    }
}
