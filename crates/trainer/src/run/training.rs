//! [`Run`]: a training run with its workers, plan and evaluation, which makes the results.

use crate::agents::{Agent, too_wide};
use crate::base::{Breakdown, notice, notice_unoptimised};
use crate::plan::{LearnerInfo, Plan};
use crate::run::evaluation::{Evaluations, PreparedEvaluation};
use crate::run::results::Results;
use crate::sample::{Changes, Pictures, RunHandle, WorkerSpec};
use crate::settings::{Common, CountStepsBy};
use crate::workers::{Counters, WorkerSet};
use pavlov_learn::base::{Device, Error, Result, Spaces, State, catch, libtorch};
use pavlov_tune::Metrics;
use serde_json::Value;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A training run: its workers, plan, evaluation and results.
pub struct Run {
    spec: WorkerSpec,
    workers: WorkerSet,
    plan: Option<Plan>,
    iteration: u64,
    results: Results,
    evaluations: Evaluations,
    /// The counters at the beginning of a round of the user's own training loop; `None` outside such a round.
    round: Option<Counters>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("iteration", &self.iteration).finish_non_exhaustive()
    }
}

impl Run {
    /// Makes a run with its workers, but without a plan; see [`set_plan`](Self::set_plan).
    pub(crate) fn new(spec: WorkerSpec) -> Result<Self> {
        let common = &spec.names.common;
        notice_unoptimised();
        spec.policies.check(spec.agents())?;
        // A panic of the mapping is no error here: it is called again when that episode begins, and fails then.
        let foreseen =
            catch(|| "the policy mapping".into(), || Ok(spec.policies.unknown_later(spec.agents())));
        if let Ok(Some(text)) = foreseen {
            notice(&text);
        }
        libtorch::one_thread();
        let device = match common.num_gpus {
            0 => Device::Cpu,
            _ if libtorch::has_gpu() => Device::Cuda(0),
            n if !libtorch::IS_HERE => {
                return Err(Error::NeedsTorch {
                    what: format!("`num_gpus` is {n}: it asks for learning on a GPU"),
                    instead: "Set it to 0".into(),
                });
            }
            n => {
                let rule = "libtorch finds no GPU; `pavlov doctor` says why. Set it to 0 to learn on the CPU";
                return Err(Error::config("num_gpus", n, rule));
            }
        };
        if common.sample_async {
            tracing::warn!(
                "`sample_async` is on: experience is one update older than the policy that learns from it"
            );
        }
        if spec.code.custom_model.is_none()
            && let Some(text) = spec.agents().iter().find_map(|agent| too_wide(common, agent))
        {
            notice(&text);
        }
        let workers = WorkerSet::new(&spec, device)?;
        Ok(Self {
            spec,
            workers,
            plan: None,
            iteration: 0,
            results: Results::default(),
            evaluations: Evaluations::default(),
            round: None,
        })
    }

    /// Sets the plan by which the run trains from now on.
    pub fn set_plan(&mut self, plan: Plan) {
        self.plan = Some(plan);
    }

    /// The workers of the run.
    pub fn workers(&self) -> &WorkerSet {
        &self.workers
    }

    /// The common settings of the run.
    pub fn common(&self) -> &Common {
        &self.spec.names.common
    }

    /// The agents of the environment; most environments have one.
    pub fn agents(&self) -> &[Agent] {
        self.spec.agents()
    }

    /// The observation and action spaces of a policy.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if no agent acts by a policy of that id.
    pub fn spaces(&self, policy: &str) -> Result<&Spaces> {
        self.spec.policies.spaces(policy, self.spec.agents())
    }

    pub(crate) fn spec(&self) -> &WorkerSpec {
        &self.spec
    }

    /// Runs one iteration: rounds of the plan until enough steps were sampled and trained, and an evaluation if one
    /// is due.
    ///
    /// The result's `time_breakdown` has the seconds spent in each phase, which add up to `total_s`.
    ///
    /// # Errors
    /// Fails if the plan, a worker, the filters' synchronisation or the evaluation does. Returns [`Error::NotFinite`]
    /// if a statistic of a learner is not finite, and [`Error::State`] if there is no plan or it has come to an end.
    pub fn step_attempt(&mut self) -> Result<Metrics> {
        let start = Instant::now();
        self.workers.ledger.start_breakdown();
        let due = Evaluations::are_due(self.common(), self.iteration + 1);
        let parallel = due && self.common().evaluation_parallel_to_training;
        let mut evaluate = Duration::ZERO;
        let (mut result, evaluation) = if parallel {
            // Dropped when the iteration's training ends, also by an error or a panic: a parallel evaluation may wait
            // for that.
            let training = Arc::new(());
            let prepared = self.prepare_evaluation(Arc::downgrade(&training))?.with_pictures();
            let (result, evaluation) = std::thread::scope(|scope| {
                let evaluating = scope.spawn(|| prepared.play());
                let result = self.train();
                drop(training);
                let over = Instant::now();
                let panicked =
                    |_| Err(Error::Panic { during: "evaluation".into(), message: "see above".into() });
                let evaluation = evaluating.join().unwrap_or_else(panicked);
                evaluate = over.elapsed();
                (result, evaluation)
            });
            (result?, Some(evaluation?))
        } else {
            (self.train()?, None)
        };
        if due {
            let (metrics, pictures) = match evaluation {
                Some(evaluation) => evaluation,
                None => {
                    let start = Instant::now();
                    let evaluation = self.prepare_evaluation(Weak::new())?.with_pictures().play()?;
                    evaluate = start.elapsed();
                    evaluation
                }
            };
            self.evaluations.keep(metrics, pictures);
        }
        let last = &self.evaluations.last;
        if due || (self.common().always_attach_evaluation_results && !last.is_null()) {
            result.insert("evaluation".into(), last.clone());
        }
        self.iteration += 1;
        let breakdown = Breakdown { evaluate, ..self.workers.ledger.breakdown(start.elapsed()) };
        result.insert("time_breakdown".into(), Value::Object(breakdown.report()));
        Ok(result)
    }

    /// Plays evaluation episodes now. Returns the metrics that results have under `evaluation`. No training runs in
    /// parallel: with `evaluation_duration` "auto" every evaluation worker plays one episode.
    ///
    /// # Errors
    /// Fails if an environment or a policy does, an episode does not end, or an evaluation worker fails and no
    /// setting lets the run go on without it.
    pub fn evaluate(&mut self) -> Result<Metrics> {
        let (metrics, _) = self.prepare_evaluation(Weak::new())?.play()?;
        self.evaluations.keep(metrics.clone(), None);
        Ok(metrics)
    }

    fn prepare_evaluation(&mut self, training: Weak<()>) -> Result<PreparedEvaluation> {
        self.evaluations.prepare(&self.spec, &self.workers, self.iteration, training)
    }

    /// Takes the pictures of the last iteration's evaluation, with the iteration's number; `None` without pictures.
    pub(crate) fn take_pictures(&mut self) -> Option<(u64, Pictures)> {
        self.evaluations.pictures.take().map(|pictures| (self.iteration, pictures))
    }

    fn train(&mut self) -> Result<Metrics> {
        let start = Instant::now();
        let before = self.workers.counters();
        let common = self.spec.names.common.clone();
        let mut info = LearnerInfo::default();
        let Some(plan) = &mut self.plan else {
            return Err(Error::state("the run", "it has no plan; `Run::set_plan` was not called"));
        };
        loop {
            match plan.next() {
                Some(round) => {
                    let round = round?;
                    // Plans that send weights have already told policies the number of steps; this is for all others,
                    // so that schedules advance.
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
        self.results.of(&self.spec, &self.workers, &before, &info)
    }

    /// Begins a round of the user's own training loop, unless one has begun.
    pub(crate) fn begin_round(&mut self) {
        if self.round.is_none() {
            self.workers.ledger.start_breakdown();
            self.round = Some(self.workers.counters());
        }
    }

    /// Ends a round of the user's own training loop, in which `info` was learned, and returns its result.
    pub(crate) fn end_round(&mut self, info: &LearnerInfo) -> Result<Metrics> {
        let before = self.round.take().unwrap_or_else(|| self.workers.counters());
        self.workers.sync_filters()?;
        self.iteration += 1;
        self.results.of(&self.spec, &self.workers, &before, info)
    }

    /// Calls the hook `on_train_result`. Returns the changes that the hook asks for; the caller applies them.
    pub(crate) fn on_train_result(&self, result: &mut Metrics) -> Result<Changes> {
        let task = self.workers.task();
        self.workers.learners.lend(|policies, callbacks| {
            let mut run = RunHandle::new(task, policies);
            let called = callbacks.as_mut().map_or(Ok(()), |hooks| hooks.on_train_result(&mut run, result));
            called.map(|()| run.changes())
        })
    }

    /// Applies the weights and the task that a hook asked for.
    pub(crate) fn change(&self, Changes { weights, task, .. }: &Changes) -> Result<()> {
        weights.iter().try_for_each(|weights| self.workers.set_weights(weights))?;
        task.as_ref().map_or(Ok(()), |task| self.workers.set_task(task.as_ref().clone()))
    }

    /// Calls the hook `on_trainer_init`.
    pub(crate) fn on_trainer_init(&self) -> Result<()> {
        self.workers.learners.with_callbacks(|callbacks| callbacks.on_trainer_init())
    }

    /// The state of the run, as parts by name.
    pub(crate) fn state(&self) -> Result<Vec<(String, State)>> {
        let mut parts = self.workers.state()?;
        let mut own = State::default();
        own.set("iteration", &self.iteration)?;
        self.results.save(&mut own)?;
        self.evaluations.save(&mut own)?;
        let of_callbacks =
            self.workers.learners.lend(|_, callbacks| callbacks.as_ref().map(|hooks| hooks.state()));
        if let Some(state) = of_callbacks.transpose()?.filter(|state| *state != State::default()) {
            own.nest("callbacks", state);
        }
        parts.push(("results".into(), own));
        Ok(parts)
    }

    /// Restores the state that [`state`](Self::state) returned; `read` returns a part by its name.
    pub(crate) fn set_state(&mut self, read: impl Fn(&str) -> Result<State>) -> Result<()> {
        let own = read("results")?;
        self.iteration = own.get("iteration")?;
        self.results.restore(&own)?;
        self.evaluations.restore(&own)?;
        self.workers.set_state(read)?;
        if own.has("callbacks") {
            let state = own.nested("callbacks")?;
            self.workers.learners.with_callbacks(|callbacks| callbacks.set_state(&state))?;
        }
        Ok(())
    }
}
