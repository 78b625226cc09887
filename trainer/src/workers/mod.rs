//! The local worker, the rollout workers and what they share, as one cheap handle.

pub mod transport;

use crate::{
    base::{
        batch::SampleBatch,
        episode::Episode,
        error::Result,
        metrics::{Counters, Timers},
        profile::{Breakdown, SamplerPerf},
        rng::Stream,
        state::{State, Weights},
    },
    policy::{DEFAULT_POLICY, Learned, Policy, PolicyMap},
    replay::{ReplayBuffer, ReplayBufferConfig, SharedReplay},
    run::common::Common,
    sample::{
        callbacks::Callbacks,
        evaluation::EvaluationTask,
        filter::RunningStat,
        worker::{Reply, Request, RolloutWorker, Sampled, WorkerSpec},
    },
    workers::transport::{ManagedPool, Replies, ThreadPool, WorkerPool},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tch::Device;

/// One local worker, whose policies learn, and N rollout workers. A clone is another handle to the same workers, so
/// every step of a plan can own one.
#[derive(Clone, Debug)]
pub struct WorkerSet(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    common: Common,
    seed: u64,
    local: Mutex<RolloutWorker>,
    pool: Mutex<ManagedPool>,
    counters: Mutex<Counters>,
    timers: Mutex<Timers>,
    /// Since the iteration began.
    perf: Mutex<SamplerPerf>,
    episodes: Mutex<Vec<Episode>>,
    learner_rng: Mutex<Stream>,
    replay: Mutex<Option<Replay>>,
}

#[derive(Debug)]
struct Replay {
    buffer: SharedReplay,
    store_in_checkpoints: bool,
}

/// Locks; a panic elsewhere has already become an error of its own.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WorkerSet {
    /// A local worker that learns on `device`, and `spec.common.num_workers` on threads.
    pub fn new(spec: &WorkerSpec, device: Device) -> Result<Self> {
        let workers = spec.common.num_workers;
        Self::over(spec, device, Box::new(ThreadPool::new(spec.clone(), workers)?))
    }

    /// A local worker, and those of another transport.
    pub fn over(spec: &WorkerSpec, device: Device, pool: Box<dyn WorkerPool>) -> Result<Self> {
        let with_env = spec.sampling && (pool.is_empty() || spec.common.create_env_on_driver);
        let set = Self(Arc::new(Shared {
            common: spec.common.clone(),
            seed: spec.seed,
            local: Mutex::new(RolloutWorker::new(spec.clone(), 0, device, with_env)?),
            pool: Mutex::new(ManagedPool::new(pool, &spec.common)),
            counters: Mutex::default(),
            timers: Mutex::default(),
            perf: Mutex::default(),
            episodes: Mutex::default(),
            learner_rng: Mutex::new(Stream::new(spec.seed, "learner", 0)),
            replay: Mutex::default(),
        }));
        Ok(set)
    }

    /// The common settings.
    pub fn common(&self) -> &Common {
        &self.0.common
    }

    /// The run's seed.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// One fragment of every rollout worker (of the local worker if there are none), in the order of the copies. With
    /// `sample_async` the workers begin the next one before this returns.
    pub fn sample(&self) -> Result<SampleBatch> {
        let start = Instant::now();
        let timestep = self.counters().num_env_steps_sampled;
        let mut pool = lock(&self.0.pool);
        let sampled: Vec<Sampled> = if pool.is_empty() {
            vec![lock(&self.0.local).sample(timestep)?]
        } else {
            let replies = match pool.take_ahead(|| self.revive())? {
                Some(replies) => replies,
                None => pool.ask_all(|_| Request::Sample { timestep }, || self.revive())?,
            };
            replies
                .into_values()
                .filter_map(|r| if let Reply::Sample(s) = r { Some(s) } else { None })
                .collect()
        };
        let steps = sampled.iter().map(|part| part.env_steps).sum();
        if self.0.common.sample_async {
            pool.begin(Request::Sample { timestep: timestep + steps })?;
        }
        drop(pool);
        let (mut perf, workers) = (SamplerPerf::default(), sampled.len() as u32);
        let mut batches = Vec::with_capacity(sampled.len());
        let mut episodes = lock(&self.0.episodes);
        for part in sampled {
            perf += part.perf;
            batches.push(part.batch);
            episodes.extend(part.episodes);
        }
        drop(episodes);
        lock(&self.0.counters).num_env_steps_sampled += steps;
        *lock(&self.0.perf) += perf / workers.max(1);
        let batch = SampleBatch::concat(batches);
        lock(&self.0.timers).add("sample", start, steps);
        batch
    }

    /// What a replaced worker is sent first.
    fn revive(&self) -> Vec<Request> {
        let mut local = lock(&self.0.local);
        let mut requests = vec![Request::SetWeights(local.policies().get_weights())];
        if let Some(filter) = local.filter() {
            requests.push(Request::SetFilter(Arc::new(filter.running().clone())));
        }
        requests
    }

    /// Sends the learner's weights to every rollout worker and tells the policies the time.
    pub fn sync_weights(&self) -> Result<()> {
        let start = Instant::now();
        let mut pool = lock(&self.0.pool);
        if !pool.is_empty() {
            let weights = lock(&self.0.local).policies().get_weights();
            pool.ask_all(|_| Request::SetWeights(Arc::clone(&weights)), || self.revive())?;
            lock(&self.0.counters).num_weight_syncs += 1;
            lock(&self.0.timers).add("synch_weights", start, 0);
        }
        drop(pool);
        let timestep = self.counters().num_env_steps_sampled;
        for (_, policy) in lock(&self.0.local).policies().iter_mut() {
            policy.on_global_var_update(timestep);
        }
        Ok(())
    }

    /// Merges what the workers' filters have seen, in the order of the workers; hands the result back to them.
    pub fn sync_filters(&self) -> Result<()> {
        let start = Instant::now();
        let mut pool = lock(&self.0.pool);
        if pool.is_empty() {
            if let Some(filter) = lock(&self.0.local).filter() {
                filter.flush();
            }
            return Ok(());
        }
        let replies = pool.ask_all(|_| Request::FlushFilter, || self.revive())?;
        let seen: Vec<RunningStat> =
            replies.into_values().filter_map(|r| if let Reply::Filter(f) = r { f } else { None }).collect();
        if let Some(merged) = self.merge_filters(&seen).filter(|_| self.0.common.synchronize_filters) {
            let merged = Arc::new(merged);
            pool.ask_all(|_| Request::SetFilter(Arc::clone(&merged)), || self.revive())?;
        }
        lock(&self.0.timers).add("synch_filters", start, 0);
        Ok(())
    }

    fn merge_filters(&self, seen: &[RunningStat]) -> Option<RunningStat> {
        if seen.is_empty() {
            return None;
        }
        let mut local = lock(&self.0.local);
        let filter = local.filter_or_new(seen[0].mean().len());
        seen.iter().for_each(|s| filter.merge(s));
        Some(filter.running().clone())
    }

    /// Calls `f` with the learning policy of that id.
    pub fn with_policy<T>(&self, id: &str, f: impl FnOnce(&mut dyn Policy) -> T) -> Result<T> {
        Ok(f(lock(&self.0.local).policies().get_mut(id)?.as_mut()))
    }

    /// Calls `f` with all learning policies.
    pub fn with_policies<T>(&self, f: impl FnOnce(&mut PolicyMap) -> T) -> T {
        f(lock(&self.0.local).policies())
    }

    /// One learning step of the default policy, hooks included.
    pub fn learn_on_batch(&self, batch: &SampleBatch) -> Result<(Learned, BTreeMap<String, f64>)> {
        let mut local = lock(&self.0.local);
        let (policies, callbacks) = local.policies_and_callbacks();
        let mut custom = BTreeMap::new();
        if let Some(callbacks) = callbacks {
            callbacks.on_learn_on_batch(DEFAULT_POLICY, batch, &mut custom)?;
        }
        Ok((policies.default_mut()?.learn_on_batch(batch)?, custom))
    }

    /// Calls `f` with the trainer's own hooks, if there are any.
    pub(crate) fn with_callbacks(&self, f: impl FnOnce(&mut Box<dyn Callbacks>) -> Result<()>) -> Result<()> {
        lock(&self.0.local).callbacks().map_or(Ok(()), f)
    }

    /// Plays evaluation episodes on the rollout workers, or on the local one if there are none.
    pub fn evaluate(&self, task: &EvaluationTask) -> Result<Vec<Episode>> {
        let mut pool = lock(&self.0.pool);
        if pool.is_empty() {
            return match lock(&self.0.local).handle(Request::Evaluate(task.clone()))? {
                Reply::Episodes(episodes) => Ok(episodes),
                _ => Ok(Vec::new()),
            };
        }
        // The w-th of W workers plays every W-th episode; the share of one that is lost on the way is dealt out again.
        let (mut episodes, mut left) = (Vec::<Episode>::new(), task.episodes.clone());
        while !left.is_empty() {
            let up = pool.healthy_workers();
            let share = |worker: usize| {
                let first = up.iter().position(|&w| w == worker).unwrap_or_default();
                let episodes = left.iter().copied().skip(first).step_by(up.len()).collect();
                Request::Evaluate(EvaluationTask { episodes, ..task.clone() })
            };
            let replies = pool.ask_all(share, || self.revive())?;
            episodes.extend(
                replies.into_values().flat_map(|r| if let Reply::Episodes(e) = r { e } else { Vec::new() }),
            );
            left.retain(|number| !episodes.iter().any(|e| e.number == *number));
        }
        episodes.sort_by_key(|e| e.number);
        Ok(episodes)
    }

    /// The replay buffer of this run; made at the first call. With `store_in_checkpoints` its rows are saved and
    /// restored with the run.
    pub fn replay_buffer(&self, config: &ReplayBufferConfig, store_in_checkpoints: bool) -> SharedReplay {
        let mut slot = lock(&self.0.replay);
        let make = || {
            let rng = Stream::new(self.0.seed, "replay", 0);
            Replay {
                buffer: Arc::new(Mutex::new(ReplayBuffer::new(config.clone(), rng))),
                store_in_checkpoints,
            }
        };
        Arc::clone(&slot.get_or_insert_with(make).buffer)
    }

    /// The counters as they stand.
    pub fn counters(&self) -> Counters {
        lock(&self.0.counters).clone()
    }

    /// Changes the counters.
    pub fn count(&self, f: impl FnOnce(&mut Counters)) {
        f(&mut lock(&self.0.counters));
    }

    /// Records how long something took.
    pub fn time(&self, name: &'static str, start: Instant, units: u64) {
        lock(&self.0.timers).add(name, start, units);
    }

    /// All timers.
    pub fn timers(&self) -> serde_json::Map<String, serde_json::Value> {
        lock(&self.0.timers).report()
    }

    /// Begins an iteration: what time went to before is forgotten.
    pub(crate) fn start_breakdown(&self) {
        lock(&self.0.timers).restart_totals();
        *lock(&self.0.perf) = SamplerPerf::default();
    }

    /// What time went to since then, but for evaluation.
    pub(crate) fn breakdown(&self, total: Duration) -> Breakdown {
        let timers = lock(&self.0.timers);
        Breakdown {
            sample: timers.total("sample"),
            workers: self.sampler_perf(),
            learn: timers.total("learn"),
            sync: timers.total("synch_weights") + timers.total("synch_filters"),
            evaluate: Duration::ZERO,
            total,
        }
    }

    /// What the mean worker's time went to in this iteration.
    pub(crate) fn sampler_perf(&self) -> SamplerPerf {
        *lock(&self.0.perf)
    }

    /// The random stream of the learner: shuffling.
    pub fn learner_rng<T>(&self, f: impl FnOnce(&mut Stream) -> T) -> T {
        f(&mut lock(&self.0.learner_rng))
    }

    /// The episodes that ended since the last call.
    pub fn take_episodes(&self) -> Vec<Episode> {
        std::mem::take(&mut *lock(&self.0.episodes))
    }

    /// Rollout workers that answer.
    pub fn num_healthy_workers(&self) -> usize {
        lock(&self.0.pool).healthy_workers().len()
    }

    /// Rollout workers that were replaced.
    pub fn num_worker_restarts(&self) -> u64 {
        lock(&self.0.pool).num_worker_restarts()
    }

    /// The learner's weights.
    pub fn get_weights(&self) -> Weights {
        lock(&self.0.local).policies().get_weights()
    }

    /// Replaces the weights of the learner and of every worker.
    pub fn set_weights(&self, weights: &Weights) -> Result<()> {
        lock(&self.0.local).policies().set_weights(weights)?;
        self.sync_weights()
    }

    /// The filter's statistics, as the learner knows them.
    pub fn filter(&self) -> Option<RunningStat> {
        lock(&self.0.local).filter().map(|f| f.running().clone())
    }

    /// Replaces the filter's statistics everywhere.
    pub fn set_filter(&self, running: &RunningStat) -> Result<()> {
        lock(&self.0.local).filter_or_new(running.mean().len()).set_running(running)?;
        let mut pool = lock(&self.0.pool);
        if !pool.is_empty() {
            let running = Arc::new(running.clone());
            pool.ask_all(|_| Request::SetFilter(Arc::clone(&running)), || self.revive())?;
        }
        Ok(())
    }

    /// Everything the run depends on, by part: policies, workers, counters, streams, replay buffer.
    pub fn state(&self) -> Result<Vec<(String, State)>> {
        let mut parts = Vec::new();
        let mut local = lock(&self.0.local);
        parts.push(("policies".to_owned(), local.policies().get_state()?));
        if let Reply::State(state) = local.handle(Request::GetState)? {
            parts.push(("worker0".to_owned(), state));
        }
        let mut run = State::default();
        run.set("filter", &local.filter())?;
        drop(local);
        run.set("counters", &*lock(&self.0.counters))?;
        run.set("episodes", &*lock(&self.0.episodes))?;
        run.set("learner_rng", &lock(&self.0.learner_rng).state())?;
        let mut pool = lock(&self.0.pool);
        if !pool.is_empty() {
            let replies = pool.ask_all(|_| Request::GetState, || self.revive())?;
            run.set("workers", &replies.keys().map(|w| w + 1).collect::<Vec<_>>())?;
            for (worker, reply) in replies {
                if let Reply::State(state) = reply {
                    parts.push((format!("worker{}", worker + 1), state));
                }
            }
            if let Some(ahead) = pool.ahead() {
                let mut sampled = State::default();
                run.set("ahead", &ahead.keys().map(|w| w + 1).collect::<Vec<_>>())?;
                for (worker, reply) in ahead {
                    if let Reply::Sample(part) = reply {
                        sampled.nest(&format!("worker{}", worker + 1), part.state()?);
                    }
                }
                parts.push(("ahead".to_owned(), sampled));
            }
        }
        drop(pool);
        parts.push(("run".to_owned(), run));
        if let Some(replay) = lock(&self.0.replay).as_ref().filter(|r| r.store_in_checkpoints) {
            parts.push(("replay_buffer".to_owned(), lock(&replay.buffer).state()?));
        }
        Ok(parts)
    }

    /// Continues from [`state`](Self::state); `read` gives a part by its name. A worker that had failed by then starts
    /// new episodes.
    ///
    /// # Errors
    /// A part that is missing or does not fit, by name: some parts are taken over then and others not.
    pub fn set_state(&self, read: impl Fn(&str) -> Result<State>) -> Result<()> {
        let run = read("run")?;
        let counters: Counters = run.get("counters")?;
        {
            let mut local = lock(&self.0.local);
            for (_, policy) in local.policies().iter_mut() {
                // For policies that do not save it.
                policy.on_global_var_update(counters.num_env_steps_sampled);
            }
            let policies = read("policies")?;
            local.policies().set_state(&policies).map_err(|e| e.within("policies"))?;
            let worker = Arc::new(read("worker0")?);
            local.handle(Request::SetState(worker)).map_err(|e| e.within("worker0"))?;
            local.set_filter_state(run.get("filter")?);
        }
        *lock(&self.0.counters) = counters;
        *lock(&self.0.episodes) = run.get("episodes")?;
        *lock(&self.0.learner_rng) = Stream::from_state(run.get("learner_rng")?);
        let mut pool = lock(&self.0.pool);
        if !pool.is_empty() {
            let saved: Vec<usize> = run.get("workers")?;
            let states: BTreeMap<usize, Arc<State>> = saved
                .into_iter()
                .map(|i| Ok((i, Arc::new(read(&format!("worker{i}"))?))))
                .collect::<Result<_>>()?;
            for request in self.revive() {
                pool.ask_all(|_| request.clone(), Vec::new)?;
            }
            // A worker without a state is asked for it, which changes nothing.
            let request = |w: usize| {
                states.get(&(w + 1)).map_or(Request::GetState, |state| Request::SetState(Arc::clone(state)))
            };
            pool.ask_all(request, Vec::new)?;
            let mut ahead = Replies::new();
            if run.has("ahead") {
                let sampled = read("ahead")?;
                for worker in run.get::<Vec<usize>>("ahead")? {
                    let part = Sampled::from_state(&sampled.nested(&format!("worker{worker}"))?);
                    ahead.insert(worker - 1, Reply::Sample(part.map_err(|e| e.within("ahead"))?));
                }
            }
            pool.set_ahead((!ahead.is_empty()).then_some(ahead));
        }
        drop(pool);
        if let Some(replay) = lock(&self.0.replay).as_ref() {
            match replay.store_in_checkpoints {
                true => lock(&replay.buffer)
                    .set_state(&read("replay_buffer")?)
                    .map_err(|e| e.within("replay_buffer"))?,
                false => tracing::warn!(
                    "this run does not keep its replay buffer in checkpoints (`store_buffer_in_checkpoints`): it starts empty"
                ),
            }
        }
        Ok(())
    }
}
