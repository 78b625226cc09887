//! A rollout worker: environments, policies, filter and callbacks, driven by requests.
//!
//! An `EnvRunner` steps environments with policies that it is lent: in the trainer those that learn. A
//! [`RolloutWorker`] is a runner with policies of its own that answers [`Request`]s, so a transport only has to carry
//! them.

use crate::agents::{Agent, Policies};
use crate::base::{Array, DEFAULT_POLICY, Episode, Error, PolicyId, Result, SamplerPerf, State, Weights};
use crate::experience::{SampleBatch, TrainBatch};
use crate::learn::nets::{CustomModel, PolicySpec};
use crate::policy::{Policy, PolicyMap};
use crate::sample::callbacks::{Callbacks, CallbacksMaker};
use crate::sample::complete_episodes::EpisodeCollector;
use crate::sample::evaluation::{Evaluation, EvaluationTask, Stage, play};
use crate::sample::filter::{FilterStats, MeanStdFilter, saved_filters};
use crate::sample::follower::{Follow, Follower};
use crate::sample::multi_agent::MultiAgentSampler;
use crate::sample::sampler::Sampler;
use crate::sample::source::FragmentSource;
use crate::settings::{BatchMode, Common};
use pavlov_envs::{EnvCopies, EnvCreator};
use pavlov_tune::Config;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tch::Tensor;

/// What a worker is asked to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Sample one fragment; `timestep` is the number of steps the run has sampled so far.
    Sample {
        /// Environment steps of the whole run.
        timestep: u64,
    },
    /// Take over the learner's weights.
    SetWeights {
        /// How many times weights were published until then.
        version: u64,
        /// The weights of all policies.
        weights: Weights,
    },
    /// Play whole episodes without learning from them.
    Evaluate(EvaluationTask),
    /// Hand over everything the next fragment depends on.
    GetState,
    /// Continue from such a state.
    SetState(Arc<State>),
    /// Hand over what the filters have seen since the last time.
    FlushFilters,
    /// Take over the merged filters.
    SetFilters(Arc<FilterStats>),
    /// Change the task of the environments.
    SetTask(Arc<Value>),
    /// Learn along with the trainer.
    Follow(Follow),
}

/// What a worker answers.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The request is done, and there is nothing to say of it.
    Done,
    /// The fragment that was asked for.
    Sample(Sampled),
    /// Finished evaluation episodes.
    Evaluation(Evaluation),
    /// The worker's state.
    State(State),
    /// What the filters have seen; nothing without filters.
    Filters(FilterStats),
    /// Where a learner waits for the others.
    Listens(SocketAddr),
}

/// One fragment, postprocessed.
#[derive(Debug)]
pub struct Sampled {
    /// Rows to learn from, and the environment steps they took.
    pub batch: TrainBatch,
    /// Episodes that ended meanwhile.
    pub episodes: Vec<Episode>,
    /// The version of the weights that made the fragment.
    pub version: u64,
    /// What the worker's time went to.
    pub perf: SamplerPerf,
}

impl Sampled {
    /// As a checkpoint has it; what the time went to is not kept.
    pub(crate) fn state(&self, keep: fn(&Tensor) -> Array) -> Result<State> {
        let mut state = State::default();
        self.batch.save(&mut state, keep)?;
        state.set("episodes", &self.episodes)?;
        state.set("version", &self.version)?;
        Ok(state)
    }

    /// What [`state`](Self::state) saved.
    pub(crate) fn from_state(state: &mut State) -> Result<Self> {
        let batch = TrainBatch::saved(state)?;
        let episodes = state.get("episodes")?;
        // Runs of the first layout had no versions.
        let version = if state.has("version") { state.get("version")? } else { 0 };
        Ok(Self { batch, episodes, version, perf: SamplerPerf::default() })
    }
}

/// All that is needed to make a worker, in this process or another.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// The common settings, already validated.
    pub common: Common,
    /// The run's seed.
    pub seed: u64,
    /// The environment.
    pub env: EnvCreator,
    /// The agents that act in the environment.
    pub agents: Vec<Agent>,
    /// The policies, and which agent acts by which.
    pub policies: Policies,
    /// A network of the user's own, in place of the `model` settings'.
    pub custom_model: Option<CustomModel>,
    /// What makes the hooks of each worker.
    pub callbacks: Option<CallbacksMaker>,
    /// Whether rollout workers sample; those of an evaluation only play episodes.
    pub sampling: bool,
    /// Where processes find all this; without it workers are threads.
    pub origin: Option<Origin>,
}

/// Where workers come from: the trainable that `main` gives to `child_main`, and the settings of the run.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The name of the trainable.
    pub trainable: String,
    /// The settings of the algorithm, complete.
    pub settings: Config,
}

impl WorkerSpec {
    /// The shared settings as they are for one policy.
    pub(crate) fn common_of(&self, id: &str) -> &Common {
        self.policies.settings(id, &self.common)
    }

    /// The policies as a worker of that index has them; all workers start with equal weights.
    ///
    /// # Errors
    /// Fails if a policy cannot be made, or there are more than `multiagent.policy_map_capacity` and no folder for them.
    /// Returns [`Error::UnknownPolicy`] if no agent acts by one of them.
    pub fn policies(&self, worker_index: usize, device: tch::Device) -> Result<PolicyMap> {
        let (capacity, all) = (self.common.multiagent.policy_map_capacity, self.policies.classes().count());
        let mut map = match all > capacity {
            false => PolicyMap::default(),
            true => {
                let (cache, spec) = (self.common.multiagent.policy_map_cache.as_deref(), self.clone());
                PolicyMap::with_capacity(capacity, cache, move |id| spec.policy(id, worker_index, device))?
            }
        };
        for (id, _) in self.policies.classes() {
            map.insert(id.clone(), self.policy(id, worker_index, device)?);
            map.make_room()?;
        }
        Ok(map)
    }

    /// One of them as it is in the beginning.
    fn policy(&self, id: &str, worker_index: usize, device: tch::Device) -> Result<Box<dyn Policy>> {
        let spaces = self.policies.spaces(id, &self.agents)?;
        let spec = PolicySpec {
            own_obs: self.common.own_obs(spaces),
            spaces: self.common.stored(spaces),
            seed: Policies::seed(self.seed, id),
            device,
            fused: self.common_of(id).model.fused,
            custom_model: self.custom_model.clone(),
            worker_index,
            num_workers: self.common.num_workers,
        };
        self.policies.class(id)?.build(&spec)
    }
}

/// Environments stepped with policies that are lent.
#[derive(Debug)]
pub(crate) struct EnvRunner {
    spec: WorkerSpec,
    index: usize,
    source: Option<Box<dyn FragmentSource>>,
    /// By policy, with `batch_mode = "complete_episodes"`.
    collectors: Option<BTreeMap<PolicyId, EpisodeCollector>>,
    /// By policy, without environments: what the rollout workers' filters have seen, or what to evaluate with.
    merged_filters: BTreeMap<PolicyId, MeanStdFilter>,
    /// Environments of the last evaluation.
    evaluated_on: Option<Stage>,
}

/// Hooks of a worker, if it has any.
pub(crate) type Hooks = Option<Box<dyn Callbacks>>;

impl EnvRunner {
    /// Environments of the worker with that index, or none.
    pub(crate) fn new(
        spec: WorkerSpec,
        index: usize,
        with_env: bool,
        policies: &mut PolicyMap,
        callbacks: &mut Hooks,
    ) -> Result<Self> {
        let merged_filters = BTreeMap::new();
        let mut runner =
            Self { spec, index, source: None, collectors: None, merged_filters, evaluated_on: None };
        if with_env {
            runner.start_source(policies, callbacks)?;
        }
        Ok(runner)
    }

    fn start_source(&mut self, policies: &mut PolicyMap, callbacks: &mut Hooks) -> Result<()> {
        let WorkerSpec { common, agents, policies: who, .. } = &self.spec;
        let n = common.num_envs_per_worker;
        let copies = common.changed(&self.spec.env).make(&common.env_config, n)?;
        if let Some(callbacks) = callbacks {
            callbacks.on_sub_environment_created(self.index, n)?;
        }
        // Copies are numbered through the whole run: those of worker 1 first. The local worker has the first numbers
        // when it is alone, and numbers behind all others when it samples besides them.
        let first = match (self.index, common.num_workers) {
            (0, 0) => 0,
            (0, workers) => workers * n,
            (i, _) => (i - 1) * n,
        };
        let (seeds, callbacks) = ((self.spec.seed, first as u64), callbacks.as_mut());
        self.source = Some(match copies {
            EnvCopies::Vector(env) => {
                let id = who.of(&agents[0].name);
                let (policy, common) = (&**policies.get_mut(&id)?, self.spec.common_of(&id));
                Box::new(Sampler::new(env, common, (id, policy), self.index, seeds, callbacks)?)
            }
            EnvCopies::MultiAgent(envs) => {
                let who = (agents.as_slice(), who);
                Box::new(MultiAgentSampler::new(envs, common, who, policies, self.index, seeds, callbacks)?)
            }
        });
        self.collectors = match common.batch_mode {
            BatchMode::TruncateEpisodes => None,
            BatchMode::CompleteEpisodes => Some(BTreeMap::new()),
        };
        Ok(())
    }

    /// One fragment: `rollout_fragment_length` steps of every copy, or whole episodes of at least as many.
    pub(crate) fn sample(
        &mut self,
        policies: &mut PolicyMap,
        callbacks: &mut Hooks,
        timestep: u64,
    ) -> Result<Sampled> {
        let start = Instant::now();
        let Self { spec, index, source, collectors, .. } = self;
        let Some(source) = source else {
            let reason = "it has no environment; set `create_env_on_driver`".to_owned();
            return Err(Error::Worker { worker: *index, reason });
        };
        if *index > 0 {
            policies.on_global_var_update(timestep);
        }
        let (explore, goal) = (spec.common.explore, spec.common.rollout_fragment_length * source.copies());
        let (mut batch, mut episodes) = (TrainBatch::default(), Vec::new());
        match collectors {
            None => {
                source.fill(policies, explore, timestep, callbacks.as_mut())?;
                batch.env_steps = goal as u64;
                source.lend(&mut |id, fragment| {
                    let mut rows = policies.get_mut(id)?.postprocess_trajectory(fragment)?;
                    if let Some(callbacks) = callbacks {
                        callbacks.on_postprocess_trajectory(id, &mut rows)?;
                    }
                    batch.policies.insert(id.to_owned(), rows);
                    Ok(())
                })?;
            }
            Some(collectors) => {
                let mut now = timestep;
                while batch.env_steps < goal as u64 {
                    source.fill(policies, explore, now, callbacks.as_mut())?;
                    now += spec.common.steps_per_round() as u64;
                    source.lend(&mut |id, fragment| {
                        if !collectors.contains_key(id) {
                            collectors.insert(id.to_owned(), EpisodeCollector::default());
                        }
                        let collector = collectors.get_mut(id).expect("just added");
                        collector.add(&fragment);
                        collector.check_length()
                    })?;
                    let ended = source.take_episodes();
                    batch.env_steps += ended.iter().map(|episode| episode.length).sum::<u64>();
                    episodes.extend(ended);
                }
                for (id, collector) in collectors {
                    let policy = policies.get_mut(id)?.as_mut();
                    let rows = collector.take((id, policy), callbacks.as_mut())?;
                    // Without an episode that has ended there are not even columns.
                    if !rows.is_empty() {
                        batch.policies.insert(id.clone(), SampleBatch::concat(rows)?);
                    }
                }
            }
        }
        if let Some(callbacks) = callbacks {
            callbacks.on_sample_end(*index, &mut batch)?;
        }
        let perf = SamplerPerf { total: start.elapsed(), ..source.take_perf() };
        episodes.extend(source.take_episodes());
        Ok(Sampled { batch, episodes, version: 0, perf })
    }

    /// Changes the task of the environments, if there are any.
    pub(crate) fn set_task(&mut self, task: &Value) -> Result<()> {
        self.source.as_mut().map_or(Ok(()), |source| source.set_task(task))
    }

    /// Plays the episodes of `task`.
    pub(crate) fn evaluate(&mut self, policies: &mut PolicyMap, task: &EvaluationTask) -> Result<Evaluation> {
        let filters = self.filter_stats();
        play(&self.spec, self.index, task, policies, &filters, &mut self.evaluated_on)
    }

    /// By policy, the filters: the sampler's, or those that collect what rollout workers have seen.
    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter> {
        match &mut self.source {
            Some(source) => source.filters(),
            None => self.merged_filters.iter_mut().map(|(id, filter)| (id.as_str(), filter)).collect(),
        }
    }

    /// The policy's filter, made if there is none.
    fn filter_or_new(&mut self, id: &str, width: usize) -> &mut MeanStdFilter {
        match self.source.as_mut().and_then(|source| source.filters().remove(id)) {
            Some(filter) => filter,
            None => self.merged_filters.entry(id.to_owned()).or_insert_with(|| MeanStdFilter::new(width)),
        }
    }

    /// What the filters have seen; nothing of those that have seen nothing, which cannot normalise.
    pub(crate) fn filter_stats(&mut self) -> FilterStats {
        let seen = self.filters().into_iter().filter(|(_, filter)| filter.running().count() > 0);
        seen.map(|(id, filter)| (id.to_owned(), filter.running().clone())).collect()
    }

    /// What the filters have seen since the last call.
    pub(crate) fn flush_filters(&mut self) -> FilterStats {
        self.filters().into_iter().map(|(id, filter)| (id.to_owned(), filter.flush())).collect()
    }

    /// Adds what another worker's filters have seen.
    pub(crate) fn merge_filters(&mut self, seen: &FilterStats) {
        seen.iter().for_each(|(id, seen)| self.filter_or_new(id, seen.mean().len()).merge(seen));
    }

    /// Replaces the statistics of the policies' filters.
    pub(crate) fn set_filter_stats(&mut self, stats: &FilterStats) -> Result<()> {
        stats.iter().try_for_each(|(id, stat)| self.filter_or_new(id, stat.mean().len()).set_running(stat))
    }

    /// Adds the filters to what a checkpoint has of the run: that of `default_policy` alone, as in older versions.
    pub(crate) fn save_filters(&mut self, run: &mut State) -> Result<()> {
        let mut filters = self.filters();
        run.set("filter", &filters.remove(DEFAULT_POLICY))?;
        if filters.is_empty() { Ok(()) } else { run.set("filters", &filters) }
    }

    /// Continues with saved filters.
    pub(crate) fn restore_filters(&mut self, run: &State) -> Result<()> {
        let mut saved = saved_filters(run, self.spec.policies.classes().map(|(id, _)| id))?;
        let own = self.source.as_mut().map(|source| source.filters());
        for (id, own) in own.into_iter().flatten() {
            *own = saved.remove(id).unwrap_or_else(|| own.clone());
        }
        self.merged_filters = saved;
        Ok(())
    }

    /// Everything the next fragment depends on.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        if let Some(source) = &self.source {
            state.nest("sampler", source.state()?);
        }
        for (id, collector) in self.collectors.iter().flatten() {
            state.nest(&collector_part(id), collector.state()?);
        }
        Ok(state)
    }

    /// Continues from [`state`](Self::state).
    pub(crate) fn set_state(&mut self, state: &State, callbacks: &mut Hooks) -> Result<()> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let continued = source.set_state(&state.nested("sampler")?, callbacks.as_mut())?;
        let Some(collectors) = &mut self.collectors else { return Ok(()) };
        collectors.clear();
        // Without their environments, the rows that waited belong to episodes that will not end.
        for (id, _) in self.spec.policies.classes().filter(|_| continued) {
            let part = collector_part(id);
            if state.has(&part) {
                let mut collector = EpisodeCollector::default();
                collector.set_state(&state.nested(&part)?)?;
                collectors.insert(id.clone(), collector);
            }
        }
        Ok(())
    }
}

/// The name of what a policy's rows wait in; that of a single-agent run has the short one.
fn collector_part(id: &str) -> String {
    if id == DEFAULT_POLICY { "collector".to_owned() } else { format!("collector_{id}") }
}

/// Environments and policies of its own, driven by requests.
pub struct RolloutWorker {
    runner: EnvRunner,
    policies: PolicyMap,
    callbacks: Hooks,
    version: u64,
    follower: Follower,
}

impl std::fmt::Debug for RolloutWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RolloutWorker").field("index", &self.runner.index).finish_non_exhaustive()
    }
}

impl RolloutWorker {
    /// The worker with that index, counted from 1.
    ///
    /// # Errors
    /// Fails if the environment or a policy cannot be made, or a hook fails.
    pub fn new(spec: WorkerSpec, index: usize) -> Result<Self> {
        let mut policies = spec.policies(index, tch::Device::Cpu)?;
        let mut callbacks = spec.callbacks.as_ref().map(CallbacksMaker::make);
        let with_env = spec.sampling;
        let runner = EnvRunner::new(spec, index, with_env, &mut policies, &mut callbacks)?;
        Ok(Self { runner, policies, callbacks, version: 0, follower: Follower::default() })
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Fails if the environment, a policy or a hook does, and returns [`Error::State`] if weights, a state or a filter
    /// do not fit.
    pub fn handle(&mut self, request: Request) -> Result<Reply> {
        let Self { runner, policies, callbacks, version, follower } = self;
        Ok(match request {
            Request::Sample { timestep } => {
                let part = runner.sample(policies, callbacks, timestep)?;
                Reply::Sample(Sampled { version: *version, ..part })
            }
            // Older ones than it has may come late.
            Request::SetWeights { version: new, weights } => {
                if new >= *version {
                    policies.set_weights(&weights)?;
                    *version = new;
                }
                Reply::Done
            }
            Request::Evaluate(task) => Reply::Evaluation(runner.evaluate(policies, &task)?),
            Request::GetState => Reply::State(runner.state()?),
            Request::SetState(state) => {
                runner.set_state(&state, callbacks)?;
                Reply::Done
            }
            Request::FlushFilters => Reply::Filters(runner.flush_filters()),
            Request::SetFilters(stats) => {
                runner.set_filter_stats(&stats)?;
                Reply::Done
            }
            Request::SetTask(task) => {
                runner.set_task(&task)?;
                Reply::Done
            }
            Request::Follow(follow) => follower.handle(policies, follow)?.map_or(Reply::Done, Reply::Listens),
        })
    }
}
