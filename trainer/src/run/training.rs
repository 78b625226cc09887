//! A training run under way: workers, plan, evaluation, and the results they make.

use crate::agents::{Agent, Policies, Probe};
use crate::base::{
    Breakdown, Episode, Error, Result, Spaces, State, catch, derive, image, notice, notice_unoptimised,
};
use crate::learn::nets::CustomModel;
use crate::plan::{LearnerInfo, Plan};
use crate::run::results::{EpisodeWindow, summarize};
use crate::sample::{CallbacksMaker, Changes, EvaluationEnd, EvaluationTask, Origin, RunHandle, WorkerSpec};
use crate::settings::{Common, CountStepsBy};
use crate::workers::WorkerSet;
use pavlov_envs::{DType, EnvCreator, Frame};
use pavlov_tune::Metrics;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tch::Device;

/// Pictures of an evaluation's first episode, at most.
const MOST_PICTURES: usize = 1000;

/// Pictures of an evaluation's first episode, and how many of them make a second, if the environment says.
pub(crate) type Pictures = (Vec<Frame>, Option<f64>);

/// Everything that trains.
pub struct Run {
    spec: WorkerSpec,
    obs_dtype: DType,
    act_dtype: DType,
    workers: WorkerSet,
    plan: Option<Plan>,
    evaluation: Option<WorkerSet>,
    window: EpisodeWindow,
    iteration: u64,
    last_evaluation: Value,
    /// Pictures of the evaluation in the last iteration, until they are taken.
    pictures: Option<Pictures>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("iteration", &self.iteration).finish_non_exhaustive()
    }
}

pub(crate) fn with_way_out(error: pavlov_envs::Error) -> pavlov_envs::Error {
    match error {
        pavlov_envs::Error::Contract { check, message } => pavlov_envs::Error::Contract {
            check,
            message: format!(
                "{message}; mend the environment, or train on it as it is with `disable_env_checking = true`"
            ),
        },
        other => other,
    }
}

/// Steps of each copy after which an environment that has ended no episode is reported.
const ENDLESS: u64 = 10_000;

/// What to say of an environment without episodes, when its copies have just taken so many steps.
fn endless(env: &str, copies: usize, before: u64, now: u64) -> Option<String> {
    let limit = ENDLESS * copies as u64;
    (before < limit && limit <= now).then(|| {
        format!(
            "no episode of {env} has ended in {ENDLESS} steps of each copy: returns are unknown and an evaluation would \
             not end. Give it a time limit: `Env::max_episode_steps`, the wrapper `TimeLimit`, or \
             `EnvSpec.max_episode_steps` where it is registered"
        )
    })
}

/// Numbers of an observation above which a fully connected network is reported.
const WIDE: usize = 10_000;

/// What to say of observations that are too wide for a fully connected network.
fn too_wide(common: &Common, agent: &Agent) -> Option<String> {
    let space = common.stored(&agent.spaces).observation_space;
    let width = space.flat_width();
    (image(&space).is_none() && width >= WIDE).then(|| {
        format!(
            "observations of {width} numbers go into a fully connected network. Images go through convolutions \
             (`model.conv_filters`) where they keep their three dimensions: without `observation_filter` and \
             `FlattenObservation`; `ResizeObservation` and `AtariPreprocessing` make them smaller"
        )
    })
}

/// Refuses groups that no agent of the environment belongs to.
pub(crate) fn check_groups(env: &EnvCreator, common: &Common) -> Result<()> {
    if common.multiagent.agent_groups.is_empty() {
        return Ok(());
    }
    let copies = env.wrapped(&common.wrappers).make(&common.env_config, 1)?;
    let agents = Agent::of(&copies)?;
    common.multiagent.check_groups(&agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>())
}

impl Run {
    /// Workers for these settings, without a plan yet.
    pub(crate) fn new(
        common: &Common,
        env: &EnvCreator,
        probe: Probe,
        policies: Policies,
        custom_model: Option<CustomModel>,
        callbacks: Option<CallbacksMaker>,
        origin: Origin,
    ) -> Result<Self> {
        notice_unoptimised();
        policies.check(&probe.agents)?;
        // A function that panics about an episode that is far away is asked again when it begins.
        let foreseen = catch(|| "the policy mapping".into(), || Ok(policies.unknown_later(&probe.agents)));
        if let Ok(Some(text)) = foreseen {
            notice(&text);
        }
        // Small networks: libtorch's own threads cost more than they bring; see `learner`.
        tch::set_num_threads(1);
        let device = match common.num_gpus {
            0 => Device::Cpu,
            _ if tch::Cuda::is_available() => Device::Cuda(0),
            n => {
                let rule = "libtorch finds no GPU; `pavlov doctor` says why. Set it to 0 to learn on the CPU";
                return Err(Error::config("num_gpus", n, rule));
            }
        };
        let spec = WorkerSpec {
            seed: common.seed.unwrap_or_default(),
            common: common.clone(),
            env: env.clone(),
            agents: probe.agents,
            policies,
            custom_model,
            callbacks,
            sampling: true,
            origin: Some(origin),
        };
        if common.sample_async {
            tracing::warn!(
                "`sample_async` is on: experience is one update older than the policy that learns from it"
            );
        }
        if spec.custom_model.is_none()
            && let Some(text) = spec.agents.iter().find_map(|agent| too_wide(common, agent))
        {
            notice(&text);
        }
        let workers = WorkerSet::new(&spec, device)?;
        Ok(Self {
            spec,
            obs_dtype: probe.obs_dtype,
            act_dtype: probe.act_dtype,
            workers,
            plan: None,
            evaluation: None,
            window: EpisodeWindow::default(),
            iteration: 0,
            last_evaluation: Value::Null,
            pictures: None,
        })
    }

    /// Trains by this plan from now on.
    pub fn set_plan(&mut self, plan: Plan) {
        self.plan = Some(plan);
    }

    /// The workers of the run.
    pub fn workers(&self) -> &WorkerSet {
        &self.workers
    }

    /// The common settings of the run.
    pub fn common(&self) -> &Common {
        &self.spec.common
    }

    /// The agents of the environment, one in most.
    pub fn agents(&self) -> &[Agent] {
        &self.spec.agents
    }

    /// What a policy observes and does.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if no agent acts by a policy of that id.
    pub fn spaces(&self, policy: &str) -> Result<&Spaces> {
        self.spec.policies.spaces(policy, &self.spec.agents)
    }

    pub(crate) fn spec(&self) -> &WorkerSpec {
        &self.spec
    }

    /// What the environment is like.
    pub(crate) fn probe(&self) -> Probe {
        Probe { agents: self.spec.agents.clone(), obs_dtype: self.obs_dtype, act_dtype: self.act_dtype }
    }

    /// Scalar types of the environment's observations and actions.
    pub(crate) fn dtypes(&self) -> (DType, DType) {
        (self.obs_dtype, self.act_dtype)
    }

    /// Makes one iteration: rounds of the plan until enough was sampled and trained, and an evaluation if one is due.
    ///
    /// The result's `time_breakdown` says what the time went to: seconds by phase, which add up to `total_s`.
    ///
    /// # Errors
    /// Fails if the plan, a worker, the filters' synchronisation or the evaluation does. Returns [`Error::NotFinite`]
    /// if a statistic of a learner is not finite, and [`Error::State`] if there is no plan or it has come to an end.
    pub fn step_attempt(&mut self) -> Result<Metrics> {
        let start = Instant::now();
        self.workers.ledger.start_breakdown();
        let mut evaluated = Duration::ZERO;
        let due =
            self.common().evaluation_interval.is_some_and(|every| (self.iteration + 1).is_multiple_of(every));
        let mut evaluation = None;
        let mut result = if due && self.common().evaluation_parallel_to_training {
            let (task, workers) = self.prepare_evaluation(self.pictures_of_evaluations())?;
            // Dropped when training is over, by an error or a panic too: an evaluation may wait for that.
            let training = Arc::new(());
            let until = EvaluationEnd::new(self.common(), Arc::downgrade(&training));
            std::thread::scope(|scope| {
                let evaluating = scope.spawn(move || Self::play(&workers, task, &until));
                let result = self.train();
                drop(training);
                let over = Instant::now();
                evaluation = Some(evaluating.join().unwrap_or_else(|_| {
                    Err(Error::Panic { during: "evaluation".into(), message: "see above".into() })
                }));
                evaluated = over.elapsed();
                result
            })?
        } else {
            self.train()?
        };
        if due {
            let (metrics, pictures) = match evaluation {
                Some(evaluation) => evaluation?,
                None => {
                    let start = Instant::now();
                    let (task, workers) = self.prepare_evaluation(self.pictures_of_evaluations())?;
                    let evaluation =
                        Self::play(&workers, task, &EvaluationEnd::new(self.common(), Weak::new()))?;
                    evaluated = start.elapsed();
                    evaluation
                }
            };
            self.last_evaluation = Value::Object(metrics);
            self.pictures = self.common().render_env.then_some(pictures);
        }
        if due || (self.common().always_attach_evaluation_results && !self.last_evaluation.is_null()) {
            result.insert("evaluation".into(), self.last_evaluation.clone());
        }
        self.iteration += 1;
        let breakdown = Breakdown { evaluate: evaluated, ..self.workers.ledger.breakdown(start.elapsed()) };
        result.insert("time_breakdown".into(), Value::Object(breakdown.report()));
        Ok(result)
    }

    fn train(&mut self) -> Result<Metrics> {
        let start = Instant::now();
        let before = self.workers.counters();
        let common = self.spec.common.clone();
        let mut info = LearnerInfo::default();
        let Some(plan) = &mut self.plan else {
            return Err(Error::state("the run", "it has no plan; `Run::set_plan` was not called"));
        };
        loop {
            match plan.next() {
                Some(round) => {
                    let round = round?;
                    // Plans that send weights have told it; schedules go on in the others, too.
                    if !round.is_empty() {
                        self.workers.tell_time();
                    }
                    info.merge(round);
                }
                None => {
                    return Err(Error::state("the plan", "it came to an end; a plan must go on for ever"));
                }
            }
            let now = self.workers.counters();
            let (sampled, trained) = match common.multiagent.count_steps_by {
                CountStepsBy::EnvSteps => (
                    now.num_env_steps_sampled - before.num_env_steps_sampled,
                    now.num_env_steps_trained - before.num_env_steps_trained,
                ),
                CountStepsBy::AgentSteps => (
                    now.num_agent_steps_sampled - before.num_agent_steps_sampled,
                    now.num_agent_steps_trained - before.num_agent_steps_trained,
                ),
            };
            if sampled >= common.min_sample_timesteps_per_reporting.unwrap_or(0)
                && trained >= common.min_train_timesteps_per_reporting.unwrap_or(0)
                && start.elapsed().as_secs_f64() >= common.min_time_s_per_reporting.unwrap_or(0.0)
            {
                break;
            }
        }
        self.workers.sync_filters()?;
        self.workers.ledger.time("training_iteration", start, 0);
        self.result(&before, &info)
    }

    fn result(&mut self, before: &crate::workers::Counters, info: &LearnerInfo) -> Result<Metrics> {
        let common = &self.spec.common;
        let counters = self.workers.counters();
        let episodes = self.workers.ledger.take_episodes();
        let episodes_this_iter = episodes.len();
        let before_steps = before.num_env_steps_sampled;
        self.window.add(episodes, common.metrics_num_episodes_for_smoothing);
        if let Some(text) =
            endless(self.spec.env.name(), common.total_envs(), before_steps, counters.num_env_steps_sampled)
                .filter(|_| self.window.is_empty())
        {
            notice(&text);
        }
        let mut sampler_results = self.window.summarize(common.keep_per_episode_custom_metrics);
        sampler_results.insert("episodes_this_iter".into(), json!(episodes_this_iter));
        sampler_results
            .insert("sampler_perf".into(), Value::Object(self.workers.ledger.sampler_perf().report()));

        let mut learner = Map::new();
        for (id, info) in info.policies() {
            let means = info.means();
            if let Some((name, value)) = means.iter().find(|(_, v)| !v.is_finite()) {
                let hint = "lower `lr`, set `grad_clip`, or scale rewards and observations".to_owned();
                let what = format!("the statistic `{name}` of the learner of `{id}`");
                return Err(Error::NotFinite {
                    what,
                    value: *value,
                    step: counters.num_env_steps_sampled,
                    hint,
                });
            }
            let mut policy = Map::new();
            let mut stats = json!(means);
            let timestep = counters.num_env_steps_sampled;
            let current = self
                .workers
                .learners
                .lend(|policies, _| Ok::<_, Error>(policies.get_mut(id)?.current_values(timestep)))?;
            if let Some(stats) = stats.as_object_mut() {
                stats.extend(current.into_iter().map(|(k, v)| (k, json!(v))));
            }
            policy.insert("learner_stats".into(), stats);
            policy.insert("custom_metrics".into(), json!(info.custom_means()));
            policy.insert("num_agent_steps_trained".into(), json!(info.rows()));
            if let Some(error) = info.mean_td_error() {
                policy.insert("mean_td_error".into(), json!(error));
            }
            learner.insert(id.into(), Value::Object(policy));
        }
        let sampled = counters.num_env_steps_sampled;
        let trained = counters.num_env_steps_trained;
        let (agents_sampled, agents_trained) =
            (counters.num_agent_steps_sampled, counters.num_agent_steps_trained);
        let counts = json!({
            "num_env_steps_sampled": sampled,
            "num_agent_steps_sampled": agents_sampled,
            "num_env_steps_trained": trained,
            "num_agent_steps_trained": agents_trained,
            "num_target_updates": counters.num_target_updates,
            "last_target_update_ts": counters.last_target_update_ts,
            "num_weight_syncs": counters.num_weight_syncs,
        });
        let mut block = Map::new();
        block.insert("learner".into(), Value::Object(learner));
        if let Value::Object(counts) = &counts {
            block.extend(counts.clone());
        }
        block.insert("policy_lag".into(), json!(self.workers.ledger.policy_lag()));
        block.extend(self.workers.ledger.learner_queue_sizes().map(|sizes| ("learner_queue".into(), sizes)));

        let mut result = Metrics::new();
        result.extend(sampler_results.clone());
        result.insert("sampler_results".into(), Value::Object(sampler_results));
        result.insert("info".into(), Value::Object(block));
        result.insert("num_healthy_workers".into(), json!(self.workers.num_healthy_workers()));
        result.insert("num_remote_worker_restarts".into(), json!(self.workers.num_worker_restarts()));
        if self.workers.common().num_learners > 1 {
            result.insert("num_healthy_learners".into(), json!(self.workers.num_healthy_learners()));
            result.insert("num_learner_restarts".into(), json!(self.workers.num_learner_restarts()));
        }
        for (key, value) in [
            ("num_env_steps_sampled", sampled),
            ("num_agent_steps_sampled", agents_sampled),
            ("num_env_steps_trained", trained),
            ("num_agent_steps_trained", agents_trained),
            ("num_env_steps_sampled_this_iter", sampled - before.num_env_steps_sampled),
            ("num_env_steps_trained_this_iter", trained - before.num_env_steps_trained),
            ("num_agent_steps_sampled_this_iter", agents_sampled - before.num_agent_steps_sampled),
            ("num_agent_steps_trained_this_iter", agents_trained - before.num_agent_steps_trained),
            ("timesteps_this_iter", sampled - before.num_env_steps_sampled),
            ("timesteps_total", sampled),
            ("agent_timesteps_total", agents_sampled),
        ] {
            result.insert(key.into(), json!(value));
        }
        result.insert("timers".into(), Value::Object(self.workers.ledger.timers()));
        result.insert("counters".into(), counts);
        Ok(result)
    }

    /// Plays evaluation episodes now; returns the block that results carry under `evaluation`. There is no training
    /// beside it: with `evaluation_duration` "auto" every evaluation worker plays one episode.
    ///
    /// # Errors
    /// Fails if an environment or a policy does, an episode does not end, or an evaluation worker fails and no setting
    /// lets the run go on without it.
    pub fn evaluate(&mut self) -> Result<Metrics> {
        let (task, workers) = self.prepare_evaluation(0)?;
        let (metrics, _) = Self::play(&workers, task, &EvaluationEnd::new(self.common(), Weak::new()))?;
        self.last_evaluation = Value::Object(metrics.clone());
        Ok(metrics)
    }

    fn pictures_of_evaluations(&self) -> usize {
        if self.common().render_env { MOST_PICTURES } else { 0 }
    }

    /// The number of the iteration that has just ended and the pictures of its evaluation, if it had one that is drawn.
    pub(crate) fn take_pictures(&mut self) -> Option<(u64, Pictures)> {
        self.pictures.take().map(|pictures| (self.iteration, pictures))
    }

    /// Workers with the learner's weights and filter, and what they are to play, without episodes yet.
    fn prepare_evaluation(&mut self, frames: usize) -> Result<(EvaluationTask, WorkerSet)> {
        let common = &self.spec.common;
        let workers = match &self.evaluation {
            Some(workers) => workers.clone(),
            None => {
                let mut spec = self.spec.clone();
                spec.sampling = false;
                spec.common.num_workers = common.evaluation_num_workers;
                spec.common.env_config.extend(common.evaluation_config.env_config.clone());
                if let Some(id) = &common.evaluation_config.env {
                    spec.env = EnvCreator::from(id.as_str());
                }
                let env = spec.env.name();
                if common.render_env && (env.starts_with("py:") || env.starts_with("pz:")) {
                    // Python environments draw only when they were made for it.
                    let kwargs = spec.common.env_config.entry("kwargs").or_insert_with(|| json!({}));
                    if let Value::Object(kwargs) = kwargs {
                        kwargs.entry("render_mode").or_insert_with(|| "rgb_array".into());
                    }
                }
                let workers = WorkerSet::new(&spec, Device::Cpu)?;
                self.evaluation = Some(workers.clone());
                workers
            }
        };
        workers.set_weights(&self.workers.get_weights())?;
        workers.set_filters(&self.workers.filters())?;
        let task = EvaluationTask {
            episodes: Vec::new(),
            seed: derive(self.workers.seed(), "evaluation", self.iteration),
            explore: common.evaluation_config.explore,
            timestep: self.workers.counters().num_env_steps_sampled,
            frames,
        };
        Ok((task, workers))
    }

    /// Plays episodes from number 0 on as `task` says, until there are enough.
    fn play(
        workers: &WorkerSet,
        mut task: EvaluationTask,
        until: &EvaluationEnd,
    ) -> Result<(Metrics, Pictures)> {
        let (mut episodes, mut steps, mut pictures) = (Vec::<Episode>::new(), 0, Pictures::default());
        loop {
            let next = until.next(episodes.len() as u64, steps, workers.num_healthy_workers());
            if next.is_empty() {
                break;
            }
            task.episodes = next.collect();
            let played = workers.evaluate(&task)?;
            if task.frames > 0 {
                pictures = (played.frames, played.render_fps);
                task.frames = 0;
            }
            steps += played.episodes.iter().map(|e| e.length).sum::<u64>();
            episodes.extend(played.episodes);
        }
        let mut metrics = summarize(episodes.iter(), false);
        metrics.insert("episodes_this_iter".into(), json!(episodes.len()));
        metrics.insert("timesteps_this_iter".into(), json!(steps));
        Ok((metrics, pictures))
    }

    /// Calls the trainer's own hook; what it asks for is still to be done.
    pub(crate) fn on_train_result(&self, result: &mut Metrics) -> Result<Changes> {
        let task = self.workers.task();
        self.workers.learners.lend(|policies, callbacks| {
            let mut run = RunHandle::new(task, policies);
            let called = callbacks.as_mut().map_or(Ok(()), |hooks| hooks.on_train_result(&mut run, result));
            called.map(|()| run.changes())
        })
    }

    /// Sets the weights and the task that a hook gave.
    pub(crate) fn change(&self, Changes { weights, task, .. }: &Changes) -> Result<()> {
        weights.iter().try_for_each(|weights| self.workers.set_weights(weights))?;
        task.as_ref().map_or(Ok(()), |task| self.workers.set_task(task.as_ref().clone()))
    }

    /// Calls the trainer's own hook.
    pub(crate) fn on_trainer_init(&self) -> Result<()> {
        self.workers.learners.with_callbacks(|callbacks| callbacks.on_trainer_init())
    }

    /// Every part of the state, by name.
    pub(crate) fn state(&self) -> Result<Vec<(String, State)>> {
        let mut parts = self.workers.state()?;
        let mut own = State::default();
        own.set("iteration", &self.iteration)?;
        own.set("window", &self.window)?;
        own.set("last_evaluation", &self.last_evaluation)?;
        let of_callbacks =
            self.workers.learners.lend(|_, callbacks| callbacks.as_ref().map(|hooks| hooks.state()));
        if let Some(state) = of_callbacks.transpose()?.filter(|state| *state != State::default()) {
            own.nest("callbacks", state);
        }
        parts.push(("results".into(), own));
        Ok(parts)
    }

    /// Continues from [`state`](Self::state).
    pub(crate) fn set_state(&mut self, read: impl Fn(&str) -> Result<State>) -> Result<()> {
        let own = read("results")?;
        let (iteration, window, last) =
            (own.get("iteration")?, own.get("window")?, own.get("last_evaluation")?);
        self.workers.set_state(read)?;
        (self.iteration, self.window, self.last_evaluation) = (iteration, window, last);
        if own.has("callbacks") {
            let state = own.nested("callbacks")?;
            self.workers.learners.with_callbacks(|callbacks| callbacks.set_state(&state))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ObservationFilter;
    use pavlov_envs::Space;

    #[test]
    fn an_environment_without_an_end_is_reported_once() {
        let reports =
            [(0, 19_999), (19_999, 20_001), (20_001, 40_000)].map(|(from, to)| endless("Maze", 2, from, to));
        assert_eq!(reports.iter().filter(|report| report.is_some()).count(), 1);
        let text = reports[1].as_deref().unwrap_or_default();
        assert!(
            text.contains("no episode of Maze has ended in 10000 steps") && text.contains("TimeLimit"),
            "{text}"
        );
    }

    #[test]
    fn pixels_that_miss_the_convolutions_are_reported() {
        let agent = |observation_space| Agent {
            name: "agent".into(),
            spaces: Spaces { observation_space, action_space: Space::discrete(2) },
        };
        let pixels = agent(Space::image(&[210, 160, 3]));
        let mut common = Common::default();
        assert_eq!(too_wide(&common, &pixels), None);
        common.observation_filter = ObservationFilter::MeanStdFilter;
        let text = too_wide(&common, &pixels).unwrap_or_default();
        assert!(text.contains("100800 numbers") && text.contains("observation_filter"), "{text}");
        assert_eq!(too_wide(&common, &agent(Space::real(&[4]))), None);
    }
}
