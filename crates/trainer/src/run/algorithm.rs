//! [`Algorithm`]: any [`Trainer`] as a [`Trainable`], and the methods that users call on it.

use crate::agents::{Agent, EnvInfo};
use crate::base::notice;
use crate::export::PolicyFormat;
use crate::export::encoded;
use crate::policy::Policy;
use crate::run::gif::write_gif;
use crate::run::notices::{Ending, notices, refuse_illegal_moves, refuse_large_image_in_parts};
use crate::run::resolve::{resolve, to_config, validate};
use crate::run::trainer::Trainer;
use crate::run::training::Run;
use crate::sample::{Code, WorkerNames, copy_policies_by};
use crate::settings::{Common, PolicyMapping};
use crate::workers::{BatchLog, WorkerSet};
use pavlov_envs::EnvCreator;
use pavlov_learn::base::{Error, Result, Stream, Weights, catch, rules};
use pavlov_tune::{Bundle, Config, ExportFormat, Metrics, Resources, Trainable, TrialContext};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A run of an algorithm: its settings, environment, workers and plan.
pub struct Algorithm<T: Trainer> {
    /// The settings that the algorithm was made with; a sweep's configuration overrides them.
    base: T,
    /// The name by which other processes find the trainable.
    trainable: String,
    pub(super) settings: T,
    pub(super) env: EnvCreator,
    pub(super) code: Code,
    pub(super) run: Option<Run>,
    /// The folder of the run's files.
    logdir: PathBuf,
    pub(super) inference_rng: Stream,
    /// Whether policies were added or removed since the run was set up.
    pub(super) policies_changed: bool,
    /// Notices that the run says before its first iteration.
    unsaid: Vec<String>,
    /// When learning stops by itself; `None` after that was said.
    ending: Option<Ending>,
}

impl<T: Trainer> std::fmt::Debug for Algorithm<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Algorithm")
            .field("settings", &self.settings)
            .field("env", &self.env)
            .finish_non_exhaustive()
    }
}

impl<T: Trainer> Algorithm<T> {
    /// Makes an algorithm that starts from `settings` when it is set up; a sweep's configuration overrides
    /// `settings`.
    pub fn new(settings: T, env: EnvCreator) -> Self {
        Self::with_code(settings, env, Code::default())
    }

    /// Makes an algorithm as [`new`](Self::new) does, with the user's own callbacks, network and policy.
    pub(super) fn with_code(settings: T, env: EnvCreator, code: Code) -> Self {
        copy_policies_by(encoded);
        Self {
            base: settings.clone(),
            trainable: Self::trainable_name(&env),
            settings,
            env,
            code,
            run: None,
            logdir: PathBuf::new(),
            inference_rng: Stream::new(0, "inference", 0),
            policies_changed: false,
            unsaid: Vec::new(),
            ending: None,
        }
    }

    /// The name of this algorithm's trainable in an environment: the names of both, joined by `_`.
    pub(super) fn trainable_name(env: &EnvCreator) -> String {
        format!("{}_{}", T::NAME, env.name())
    }

    /// The settings of the run. Before the algorithm is set up, they are those that it was made with.
    pub fn settings(&self) -> &T {
        &self.settings
    }

    pub(super) fn run(&self) -> Result<&Run> {
        self.run.as_ref().ok_or_else(|| Error::state("the algorithm", "it is not set up"))
    }

    pub(super) fn run_mut(&mut self) -> Result<&mut Run> {
        self.run.as_mut().ok_or_else(|| Error::state("the algorithm", "it is not set up"))
    }

    /// The workers of the run. A restore replaces them, so call this again afterwards.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the algorithm is not set up.
    pub fn workers(&self) -> Result<&WorkerSet> {
        Ok(self.run()?.workers())
    }

    /// Plays evaluation episodes as the `evaluation_*` settings say. Returns the metrics that results have under
    /// `evaluation`.
    ///
    /// # Errors
    /// Fails if an environment or a policy does, an episode does not end, or an evaluation worker fails and no
    /// setting lets the run go on without it. Returns [`Error::State`] if the algorithm is not set up.
    pub fn evaluate(&mut self) -> Result<Metrics> {
        self.run_mut()?.evaluate()
    }

    /// Calls `f` with the learner's policy `id`, and returns its result.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if there is no policy of that id, and [`Error::State`] if the algorithm is
    /// not set up.
    pub fn get_policy<R>(&self, id: &str, f: impl FnOnce(&mut dyn Policy) -> R) -> Result<R> {
        self.workers()?.with_policy(id, f)
    }

    /// The weights of all policies, nested by policy id.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the algorithm is not set up.
    pub fn get_weights(&self) -> Result<Weights> {
        Ok(self.workers()?.get_weights())
    }

    /// The weights of the policies `ids`, nested by policy id.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] for an id that no policy has, and [`Error::State`] if the algorithm is not
    /// set up.
    pub fn get_weights_of(&self, ids: &[&str]) -> Result<Weights> {
        self.workers()?.learners.lend(|policies, _| policies.get_weights_of(ids))
    }

    /// Replaces the weights of the learner and of every worker. Policies that `weights` does not name keep their
    /// weights.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] for an id that no policy has, [`Error::State`] if `weights` names no policy,
    /// a parameter is missing or has another shape, or the algorithm is not set up, and [`Error::Worker`] if a worker
    /// fails and no setting lets the run go on without it.
    pub fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        self.workers()?.set_weights(weights)
    }

    fn start(&mut self, settings: T, env: EnvCreator) -> Result<()> {
        let mut settings = settings;
        if settings.common().seed.is_none() {
            settings.common_mut().seed = Some(rand::random::<u64>() >> 1);
        }
        let env_info = match EnvInfo::new(&env, settings.common()) {
            Ok(env_info) => env_info,
            Err(error) => return rules::all([settings.common().validate(), Err(error)]),
        };
        self.write_mapping(&mut settings, &env_info.agents)?;
        rules::all([
            validate(&mut settings, &env_info.agents[0].spaces),
            refuse_illegal_moves(settings.common(), &env_info),
        ])?;
        let has_own_network = self.code.custom_model.is_some();
        if !has_own_network {
            refuse_large_image_in_parts(&settings, &env_info)?;
        }
        self.unsaid = notices(&settings, &env_info, has_own_network);
        self.ending = Ending::of(&to_config(&settings)?);
        let run = self.make_run(&settings, &env, env_info)?;
        run.on_trainer_init()?;
        self.policies_changed = false;
        self.inference_rng = Stream::new(settings.common().seed.unwrap_or_default(), "inference", 0);
        self.settings = settings;
        self.env = env;
        self.run = Some(run);
        Ok(())
    }

    /// Says what a user should know, once: before the first iteration, and when the step size has become 0.
    pub(super) fn say_notices(&mut self) -> Result<()> {
        self.unsaid.drain(..).for_each(|text| notice(&text));
        let steps = self.workers()?.counters().num_env_steps_sampled;
        if let Some(ending) = self.ending.take_if(|ending| ending.step <= steps) {
            notice(&format!(
                "{}, so nothing is learned from here on. Longer schedules go on learning: `pavlov resume RUN --stop \
                 timesteps_total=N --stretch-schedules`, or `lr_schedule` in a program",
                ending.text()
            ));
        }
        Ok(())
    }

    /// Writes the pictures of this iteration's evaluation, if there are any, as a GIF, and puts its path into the
    /// result.
    fn write_video(&mut self, result: &mut Metrics) -> Result<()> {
        let Some((iteration, (frames, render_fps))) = self.run_mut()?.take_pictures() else { return Ok(()) };
        let video = format!("videos/iteration_{iteration:06}.gif");
        write_gif(&self.logdir.join(&video), &frames, render_fps)?;
        if let Some(Value::Object(evaluation)) = result.get_mut("evaluation") {
            evaluation.insert("video".into(), video.into());
        }
        Ok(())
    }

    /// Calls the user's `policy_mapping_fn` for each agent and writes the policies into the settings, so that
    /// checkpoints, results and other processes have them.
    fn write_mapping(&self, settings: &mut T, agents: &[Agent]) -> Result<()> {
        let Some(mapping) = &self.code.policy_mapping_fn else { return Ok(()) };
        match &mut settings.common_mut().multiagent.policy_mapping_fn {
            PolicyMapping::Patterns(patterns) => {
                patterns.extend(agents.iter().map(|agent| (agent.name.clone(), mapping(&agent.name))));
                Ok(())
            }
            PolicyMapping::Registered(name) => {
                let rule =
                    "`Builder::policy_mapping_fn` gives the run another function; leave out one of the two";
                Err(Error::config("multiagent.policy_mapping_fn", format_args!("{name:?}"), rule))
            }
        }
    }

    pub(super) fn make_run(&self, settings: &T, env: &EnvCreator, env_info: EnvInfo) -> Result<Run> {
        let names = WorkerNames {
            trainable: Some(self.trainable.clone()),
            settings: to_config(settings)?,
            common: settings.common().clone(),
            env: env.name().to_owned(),
            env_info,
            sampling: true,
        };
        let mut run = Run::new(self.code.spec(settings, env, names)?)?;
        run.workers().learners.log_batches(BatchLog::new(
            &self.logdir,
            T::NAME,
            settings.common().log_batches,
        ));
        run.set_plan(settings.execution_plan(run.workers()));
        run.workers().learners.check_replay_mode()?;
        settings.setup(&mut run)?;
        Ok(run)
    }
}

impl<T: Trainer> Trainable for Algorithm<T> {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> pavlov_tune::Result<()> {
        self.logdir.clone_from(&trial.logdir);
        let (settings, env) = resolve(&self.settings, config, &self.env)?;
        Ok(catch(|| format!("setting up {}", T::NAME), || self.start(settings, env))?)
    }

    fn step(&mut self) -> pavlov_tune::Result<Metrics> {
        let settings = self.settings.clone();
        self.say_notices()?;
        let run = self.run_mut()?;
        let mut result =
            catch(|| format!("a training iteration of {}", T::NAME), || settings.step_attempt(run))?;
        self.write_video(&mut result)?;
        Ok(result)
    }

    fn save_checkpoint(&mut self, dir: &Path) -> pavlov_tune::Result<()> {
        self.checkpoint_settings()?.write(dir)?;
        for (name, part) in self.run()?.state()? {
            part.write(dir, &name)?;
        }
        Ok(())
    }

    fn load_checkpoint(&mut self, dir: &Path) -> pavlov_tune::Result<()> {
        catch(|| "restoring".to_owned(), || self.load(dir)).map_err(|error| pavlov_tune::Error::Checkpoint {
            path: dir.to_owned(),
            reason: error.to_string(),
        })
    }

    fn reset_config(&mut self, new: &Config) -> pavlov_tune::Result<bool> {
        let (settings, env) = resolve(&self.base, new, &self.env)?;
        self.run = None;
        catch(|| format!("setting up {}", T::NAME), || self.start(settings, env))?;
        Ok(true)
    }

    fn cleanup(&mut self) -> pavlov_tune::Result<()> {
        self.run = None;
        Ok(())
    }

    fn log_result(&mut self, result: &mut Metrics) -> pavlov_tune::Result<()> {
        let changes = self.run()?.on_train_result(result)?;
        self.edit_policies(&changes.policies)?;
        Ok(self.run()?.change(&changes)?)
    }

    fn export_model(&mut self, format: ExportFormat, dir: &Path) -> pavlov_tune::Result<Option<PathBuf>> {
        match format {
            ExportFormat::Model => Ok(Some(self.export_policy_model(dir, PolicyFormat::TorchScript)?)),
            ExportFormat::Onnx => Ok(Some(self.export_policy_model(dir, PolicyFormat::Onnx)?)),
            _ => Ok(None),
        }
    }

    fn default_resource_request(&self, config: &Config) -> Option<Resources> {
        let (settings, _) = resolve(&self.settings, config, &self.env).ok()?;
        let common = settings.common();
        common.validate().ok()?;
        let mut own = Bundle::from([
            ("CPU".into(), common.num_cpus_for_driver as f64),
            ("GPU".into(), common.num_gpus as f64),
        ]);
        let evaluation = if common.evaluation_interval.is_some() { common.evaluation_num_workers } else { 0 };
        let cores = |number: usize| Bundle::from([("CPU".into(), number as f64)]);
        let mut worker = cores(common.num_cpus_per_worker);
        worker.insert("GPU".into(), common.num_gpus_per_worker);
        worker.extend(common.custom_resources_per_worker.clone());
        let kinds = [
            (common.workers, common.num_workers + evaluation, worker),
            (common.learners, common.num_learners.saturating_sub(1), cores(common.num_cpus_per_learner)),
        ];
        let has_actors = kinds.iter().any(|(workers, number, _)| Common::are_actors(*workers, *number));
        let mut others = Vec::new();
        for (workers, number, each) in kinds {
            if has_actors && !Common::are_actors(workers, number) {
                // Workers that are not Ray actors run on the machine of the trial.
                *own.entry("CPU".into()).or_default() += number as f64 * each["CPU"];
            } else {
                others.extend(std::iter::repeat_n(each, number));
            }
        }
        others.insert(0, own);
        let strategy = has_actors.then_some(common.placement_strategy);
        Some(Resources::new(others).ok()?.placed(strategy))
    }

    fn resource_help(&self, _config: &Config) -> String {
        "`num_workers`, `evaluation_num_workers`, `num_cpus_per_worker`, `num_learners`, `num_cpus_per_learner` and `num_gpus` change what a trial asks for".into()
    }

    fn kind(&self) -> String {
        T::NAME.into()
    }

    fn resolved_config(&self) -> Option<Config> {
        let mut config = to_config(&self.settings).ok()?;
        config.insert("env".into(), self.env.name().into());
        Some(config)
    }
}
