//! The environments of one worker, which are stepped with policies that the caller lends.

use crate::base::{DEFAULT_POLICY, PolicyId, SamplerPerf};
use crate::experience::TrainBatch;
use crate::policy::PolicyMap;
use crate::sample::callbacks::Callbacks;
use crate::sample::complete_episodes::EpisodeCollector;
use crate::sample::evaluation::{Evaluation, EvaluationTask, Stage, play};
use crate::sample::external::ExternalSampler;
use crate::sample::filter::{FilterStats, MeanStdFilter, saved_filters};
use crate::sample::messages::Sampled;
use crate::sample::multi_agent::MultiAgentSampler;
use crate::sample::sampler::Sampler;
use crate::sample::source::FragmentSource;
use crate::sample::spec::WorkerSpec;
use crate::settings::BatchMode;
use pavlov_envs::EnvCopies;
use pavlov_learn::base::{Error, Result, State};
use pavlov_learn::experience::{Fragment, SampleBatch, WaitingRows};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

/// Environments of one worker, stepped with policies that the caller lends.
#[derive(Debug)]
pub(crate) struct EnvRunner {
    /// The description that the environments and policies are made from.
    spec: WorkerSpec,
    /// Index of the worker; 0 is the trainer.
    pub(crate) index: usize,
    /// Environments that are sampled, if the worker has any.
    source: Option<Box<dyn FragmentSource>>,
    /// Unfinished episodes by policy id; only with `batch_mode = "complete_episodes"`.
    collectors: Option<BTreeMap<PolicyId, EpisodeCollector>>,
    /// Steps whose n-step rows wait for later rewards, by policy id; not with `batch_mode = "complete_episodes"`.
    waiting: BTreeMap<PolicyId, WaitingRows>,
    /// Observation filters by policy id, of a worker without environments: merged from the rollout workers, or set for
    /// evaluation.
    merged_filters: BTreeMap<PolicyId, MeanStdFilter>,
    /// Environments kept from the last evaluation for the next one.
    evaluated_on: Option<Stage>,
}

/// The callbacks object of one worker; `None` if the run has none.
pub(crate) type Hooks = Option<Box<dyn Callbacks>>;

impl EnvRunner {
    /// Makes the runner of one worker, with or without environments to sample.
    pub(crate) fn new(
        spec: WorkerSpec,
        index: usize,
        with_env: bool,
        policies: &mut PolicyMap,
        callbacks: &mut Hooks,
    ) -> Result<Self> {
        let merged_filters = BTreeMap::new();
        let mut runner = Self {
            spec,
            index,
            source: None,
            collectors: None,
            waiting: BTreeMap::new(),
            merged_filters,
            evaluated_on: None,
        };
        if with_env {
            runner.start_source(policies, callbacks)?;
        }
        Ok(runner)
    }

    fn start_source(&mut self, policies: &mut PolicyMap, callbacks: &mut Hooks) -> Result<()> {
        let WorkerSpec { names, policies: who, .. } = &self.spec;
        let common = &names.common;
        let n = common.num_envs_per_worker;
        let copies = common.wrap_env(&self.spec.env).make(&common.env_config, n)?;
        if let Some(callbacks) = callbacks {
            callbacks.on_sub_environment_created(self.index, n)?;
        }
        // Environment copies are numbered through the whole run, beginning with those of worker 1. The copies of the
        // local worker have the first numbers if it samples alone, and the last ones if other workers sample as well.
        let first = match (self.index, common.num_workers) {
            (0, 0) => 0,
            (0, workers) => workers * n,
            (i, _) => (i - 1) * n,
        };
        let seeds = (self.spec.seed(), first as u64);
        let callbacks = callbacks.as_mut();
        self.source = Some(match copies {
            EnvCopies::Vector(env) => {
                let id = who.of(&names.env_info.agents[0].name);
                let policy = &**policies.get_mut(&id)?;
                let common = self.spec.common_of(&id);
                Box::new(Sampler::new(env, common, (id, policy), self.index, seeds, callbacks)?)
            }
            EnvCopies::External(env) => Box::new(ExternalSampler::new(env, &self.spec, policies)?),
            EnvCopies::MultiAgent(copies) => {
                let who = (self.spec.agents(), who);
                Box::new(MultiAgentSampler::new(copies, common, who, policies, self.index, seeds, callbacks)?)
            }
        });
        self.collectors = match common.batch_mode {
            BatchMode::TruncateEpisodes => None,
            BatchMode::CompleteEpisodes => Some(BTreeMap::new()),
        };
        Ok(())
    }

    /// Samples one fragment: `rollout_fragment_length` steps of every copy or, with `batch_mode = "complete_episodes"`,
    /// whole episodes with at least as many steps together.
    pub(crate) fn sample(
        &mut self,
        policies: &mut PolicyMap,
        callbacks: &mut Hooks,
        mut timestep: u64,
    ) -> Result<Sampled> {
        let start = Instant::now();
        let Self { spec, index, source, collectors, waiting, .. } = self;
        let Some(source) = source else {
            let reason = "it has no environment; set `create_env_on_driver`".to_owned();
            return Err(Error::Worker { worker: *index, reason });
        };
        if *index > 0 {
            policies.on_global_var_update(timestep);
        }
        let explore = spec.names.common.explore;
        let mut batch = TrainBatch::default();
        let mut episodes = Vec::new();
        match collectors {
            None => {
                batch.env_steps = source.fill(policies, explore, timestep, callbacks.as_mut())?;
                source.lend(&mut |id, fragment| {
                    let own = RefCell::new(waiting.remove(id).unwrap_or_default());
                    let fragment = Fragment { waiting: Some(&own), ..fragment };
                    let mut rows = policies.get_mut(id)?.postprocess_trajectory(fragment)?;
                    waiting.insert(id.to_owned(), own.into_inner());
                    if let Some(callbacks) = callbacks {
                        callbacks.on_postprocess_trajectory(id, &mut rows)?;
                    }
                    batch.policies.insert(id.to_owned(), rows);
                    Ok(())
                })?;
            }
            Some(collectors) => {
                let goal = spec.names.common.rollout_fragment_length * source.copies();
                while batch.env_steps < goal as u64 {
                    source.fill(policies, explore, timestep, callbacks.as_mut())?;
                    timestep += spec.names.common.steps_per_round() as u64;
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
                    // A policy without a finished episode has no rows, and not even columns.
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

    /// Sets the task of the environments that are sampled; without such environments it does nothing.
    pub(crate) fn set_task(&mut self, task: &Value) -> Result<()> {
        self.source.as_mut().map_or(Ok(()), |source| source.set_task(task))
    }

    /// Plays the evaluation episodes of `task`, and returns their results.
    pub(crate) fn evaluate(&mut self, policies: &mut PolicyMap, task: &EvaluationTask) -> Result<Evaluation> {
        let filters = self.filter_stats();
        play(&self.spec, self.index, task, policies, &filters, &mut self.evaluated_on)
    }

    /// Observation filters by policy id: those of the sampled environments or, without environments, the merged ones.
    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter> {
        match &mut self.source {
            Some(source) => source.filters(),
            None => self.merged_filters.iter_mut().map(|(id, filter)| (id.as_str(), filter)).collect(),
        }
    }

    /// The observation filter of one policy; if there is none, one for `width` components is made.
    fn filter_or_new(&mut self, id: &str, width: usize) -> &mut MeanStdFilter {
        match self.source.as_mut().and_then(|source| source.filters().remove(id)) {
            Some(filter) => filter,
            None => self.merged_filters.entry(id.to_owned()).or_insert_with(|| MeanStdFilter::new(width)),
        }
    }

    /// Statistics of each observation filter, by policy id; empty filters are left out, because they cannot normalise.
    pub(crate) fn filter_stats(&mut self) -> FilterStats {
        let seen = self.filters().into_iter().filter(|(_, filter)| filter.running().count() > 0);
        seen.map(|(id, filter)| (id.to_owned(), filter.running().clone())).collect()
    }

    /// Returns the statistics of each observation filter since the last call, by policy id.
    pub(crate) fn flush_filters(&mut self) -> FilterStats {
        self.filters().into_iter().map(|(id, filter)| (id.to_owned(), filter.flush())).collect()
    }

    /// Adds the statistics of another worker's observation filters, given by policy id.
    pub(crate) fn merge_filters(&mut self, seen: &FilterStats) {
        seen.iter().for_each(|(id, seen)| self.filter_or_new(id, seen.mean().len()).merge(seen));
    }

    /// Replaces the statistics of the observation filters, given by policy id.
    pub(crate) fn set_filter_stats(&mut self, stats: &FilterStats) -> Result<()> {
        stats.iter().try_for_each(|(id, stat)| self.filter_or_new(id, stat.mean().len()).set_running(stat))
    }

    /// Saves the observation filters in a checkpoint. The filter of `default_policy` has an entry of its own, as in
    /// checkpoints of older versions.
    pub(crate) fn save_filters(&mut self, run: &mut State) -> Result<()> {
        let mut filters = self.filters();
        run.set("filter", &filters.remove(DEFAULT_POLICY))?;
        if filters.is_empty() { Ok(()) } else { run.set("filters", &filters) }
    }

    /// Restores the observation filters from a checkpoint.
    pub(crate) fn restore_filters(&mut self, run: &State) -> Result<()> {
        let mut saved = saved_filters(run, self.spec.policies.classes().map(|(id, _)| id))?;
        let own = self.source.as_mut().map(|source| source.filters());
        for (id, own) in own.into_iter().flatten() {
            *own = saved.remove(id).unwrap_or_else(|| own.clone());
        }
        self.merged_filters = saved;
        Ok(())
    }

    /// Returns the state that the next fragment depends on: the environments and the unfinished episodes.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        if let Some(source) = &self.source {
            state.nest("sampler", source.state()?);
        }
        for (id, collector) in self.collectors.iter().flatten() {
            state.nest(&collector_part(id), collector.state()?);
        }
        for (id, waiting) in self.waiting.iter().filter(|(_, waiting)| !waiting.is_empty()) {
            let mut own = State::default();
            waiting.save(&mut own)?;
            state.nest(&waiting_part(id), own);
        }
        Ok(state)
    }

    /// Restores the state that [`state`](Self::state) returned.
    pub(crate) fn set_state(&mut self, state: &State, callbacks: &mut Hooks) -> Result<()> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let continued = source.set_state(&state.nested("sampler")?, callbacks.as_mut())?;
        // If the environments could not be restored, the rows that wait belong to episodes that will never go on: drop them.
        self.waiting.clear();
        for (id, _) in self.spec.policies.classes().filter(|_| continued) {
            let part = waiting_part(id);
            if state.has(&part) {
                self.waiting.insert(id.clone(), WaitingRows::saved(&state.nested(&part)?)?);
            }
        }
        let Some(collectors) = &mut self.collectors else { return Ok(()) };
        collectors.clear();
        // If the environments could not be restored, the unfinished rows belong to episodes that will never end: drop
        // them.
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

/// Name of the part of a checkpoint with a policy's steps that wait for later rewards.
fn waiting_part(id: &str) -> String {
    format!("waiting_{id}")
}

/// Name of the part of a checkpoint with a policy's unfinished episodes; `default_policy` has the name without its id.
fn collector_part(id: &str) -> String {
    if id == DEFAULT_POLICY { "collector".to_owned() } else { format!("collector_{id}") }
}
