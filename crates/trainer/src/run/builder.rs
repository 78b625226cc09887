//! [`TrainerExt`] and [`Builder`]: from an algorithm's settings to a [`Driver`] or a sweep.

use crate::base::PolicyId;
use crate::policy::PolicyClass;
use crate::run::algorithm::Algorithm;
use crate::run::resolve::from_defaults;
use crate::run::trainer::Trainer;
use crate::sample::{Callbacks, CallbacksMaker, Code};
use crate::workers::serve;
use pavlov_envs::{EnvCreator, IntoEnvCreator};
use pavlov_learn::base::{Error, Result};
use pavlov_learn::nets::CustomModel;
use pavlov_tune::config::parse_toml;
use pavlov_tune::{Config, Driver, LoggerChoice, Resume, RunOptions, TrainableFactory};
use std::path::PathBuf;
use std::sync::Arc;

/// Methods that every [`Trainer`] has for its users. Every `Trainer` implements this trait already; do not implement
/// it.
pub trait TrainerExt: Trainer {
    /// Makes a run that is ready to train: `Ppo::get_default_config().build("CartPole-v1")?.train()?`.
    ///
    /// The environment is an id, a closure that makes one copy, or an [`EnvCreator`]. The run writes no files before
    /// its first result or checkpoint.
    ///
    /// # Errors
    /// Returns [`Error::Tune`] if a setting breaks a rule, or the environment or a policy cannot
    /// be made.
    fn build(self, env: impl IntoEnvCreator) -> Result<Driver<Algorithm<Self>>> {
        self.builder(env).build()
    }

    /// Reads settings from a JSON object; those that it leaves out have their defaults.
    ///
    /// ```
    /// # use pavlov_trainer::{Result, Trainer, TrainerExt};
    /// fn read<T: Trainer>() -> Result<T> {
    ///     T::from_json(r#"{"gamma": 0.9, "num_workers": 0, "model": {"fcnet_hiddens": [32]}}"#)
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the text is no JSON object; if a key is no setting, with the name here of settings that other
    /// libraries have; if a value has the wrong type; and if a setting has no effect. One error names all mistakes. The
    /// rules of settings are checked by [`build`](Self::build).
    fn from_json(text: &str) -> Result<Self> {
        let config = serde_json::from_str(text).map_err(|error| {
            Error::config("JSON", "not readable", format!("it must be an object: {error}"))
        })?;
        Self::from_config(config)
    }

    /// Reads settings from TOML, as [`from_json`](Self::from_json) reads them from JSON.
    ///
    /// # Errors
    /// Returns an error if the text is not TOML, and whenever [`from_json`](Self::from_json) refuses the settings.
    fn from_toml(text: &str) -> Result<Self> {
        Self::from_config(parse_toml(text, "TOML")?)
    }

    /// Makes settings of a JSON object, as [`from_json`](Self::from_json) does.
    ///
    /// # Errors
    /// Fails whenever [`from_json`](Self::from_json) refuses the settings.
    fn from_config(config: Config) -> Result<Self> {
        from_defaults(config, "settings")
    }

    /// Makes the factory that a sweep needs to run this algorithm. The settings of a trial override these settings.
    ///
    /// ```no_run
    /// use pavlov_tune::{Tuner, search::loguniform};
    /// # fn sweep<T: pavlov_trainer::Trainer>(ppo: T) -> pavlov_tune::Result<()> {
    /// # use pavlov_trainer::TrainerExt;
    /// let results = Tuner::new(ppo.as_trainable("CartPole-v1"))
    ///     .space(serde_json::json!({"lr": loguniform(1e-4, 1e-2)}))
    ///     .samples(4)
    ///     .fit()?;
    /// # Ok(())
    /// # }
    /// ```
    fn as_trainable(&self, env: impl IntoEnvCreator) -> TrainableFactory {
        factory(self, &env.into_env_creator(), &Code::default())
    }

    /// Makes a builder of a run, which is [`build`](Self::build) with your own callbacks, run directory or loggers.
    fn builder(self, env: impl IntoEnvCreator) -> Builder<Self> {
        Builder::new(self, env.into_env_creator())
    }
}

impl<T: Trainer> TrainerExt for T {}

/// Makes a factory of algorithms for trials; worker processes make their rollout workers with it.
fn factory<T: Trainer>(settings: &T, env: &EnvCreator, code: &Code) -> TrainableFactory {
    let settings = settings.clone();
    let trial_env = env.clone();
    let trial_code = code.clone();
    let trial =
        move |_: &Config| Ok(Algorithm::with_code(settings.clone(), trial_env.clone(), trial_code.clone()));
    let worker_env = env.clone();
    let worker_code = code.clone();
    TrainableFactory::new(Algorithm::<T>::trainable_name(env), trial).with_rollout_workers(move |socket| {
        let env = worker_env.clone();
        let code = worker_code.clone();
        Ok(serve(socket, move |names| code.spec_of_names::<T>(&env, names))?)
    })
}

/// Collects the options of a run, and builds its [`Driver`].
#[derive(Debug)]
pub struct Builder<T: Trainer> {
    settings: T,
    env: EnvCreator,
    code: Code,
    options: RunOptions,
}

impl<T: Trainer> Builder<T> {
    /// Makes a builder of a run with `settings` in the environment `env`.
    pub fn new(settings: T, env: EnvCreator) -> Self {
        let options = RunOptions {
            name: Some(Algorithm::<T>::trainable_name(&env)),
            log_sys_usage: settings.common().log_sys_usage,
            ..RunOptions::default()
        };
        Self { settings, env, code: Code::default(), options }
    }

    /// Adds callbacks to the run; `make` is called once in the trainer and once in every worker.
    #[must_use]
    pub fn callbacks<C: Callbacks + 'static>(mut self, make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        self.code.callbacks = Some(CallbacksMaker::new(make));
        self
    }

    /// Uses this network instead of the layers of the `model` settings. A program that restores the run must set it,
    /// too.
    #[must_use]
    pub fn custom_model(mut self, model: CustomModel) -> Self {
        self.code.custom_model = Some(model);
        self
    }

    /// Trains this policy instead of the algorithm's own. A program that restores the run must set it, too.
    #[must_use]
    pub fn policy_class(mut self, policy_class: PolicyClass) -> Self {
        self.code.policy_class = Some(policy_class);
        self
    }

    /// Sets the policy of each agent: `mapping` gets the name of an agent and returns the id of its policy. It is
    /// called once per agent when the run is set up. The ids are then written into the settings
    /// (`multiagent.policy_mapping_fn`), where they take precedence over the patterns. For a function that is called
    /// in each episode, see
    /// [`register_policy_mapping_fn`](crate::register_policy_mapping_fn).
    ///
    /// ```no_run
    /// # use pavlov_trainer::{Trainer, TrainerExt};
    /// # fn train<T: Trainer>(mut ppo: T) -> pavlov_trainer::Result<()> {
    /// let policies = &mut ppo.common_mut().multiagent.policies;
    /// policies.extend(["first", "others"].map(|id| (id.to_owned(), Default::default())));
    /// let by = |agent: &str| if agent == "agent_0" { "first" } else { "others" };
    /// let mut trainer = ppo.builder("simple_spread_v3").policy_mapping_fn(by).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn policy_mapping_fn<Id: Into<PolicyId>>(
        mut self,
        mapping: impl Fn(&str) -> Id + Send + Sync + 'static,
    ) -> Self {
        self.code.policy_mapping_fn = Some(Arc::new(move |agent| mapping(agent).into()));
        self
    }

    /// Sets the run directory. A directory that holds a run already is refused, unless [`resume`](Self::resume) says
    /// otherwise.
    #[must_use]
    pub fn logdir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.options.logdir = Some(dir.into());
        self
    }

    /// Sets what happens if the run directory holds a run already. With [`Resume::IfThere`], [`build`](Self::build)
    /// restores its newest checkpoint, so that a program which is started again continues its run.
    ///
    /// ```no_run
    /// # use pavlov_trainer::{Result, Trainer, TrainerExt};
    /// # use pavlov_tune::Resume;
    /// # fn train<T: Trainer>(ppo: T) -> Result<()> {
    /// let mut trainer = ppo.builder("CartPole-v1").logdir("runs/first").resume(Resume::IfThere).build()?;
    /// while trainer.iteration() < 100 {
    ///     trainer.train()?;
    ///     trainer.save()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.options.resume = resume;
        self
    }

    /// Sets the loggers that write the results of the run.
    #[must_use]
    pub fn loggers(mut self, loggers: LoggerChoice) -> Self {
        self.options.loggers = loggers;
        self
    }

    /// Calls `change` with all [`RunOptions`] of the run, for the options that have no method here.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut RunOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Makes the factory of this algorithm for `child_main` and for a sweep, with the callbacks, network and policy
    /// set here. With `workers = "procs"` the processes of rollout workers are made from it.
    ///
    /// ```no_run
    /// # use pavlov_trainer::{Trainer, TrainerExt, settings::Workers};
    /// # fn train<T: Trainer>(mut ppo: T) -> pavlov_trainer::Result<()> {
    /// ppo.common_mut().workers = Workers::procs(4);
    /// let builder = ppo.builder("CartPole-v1");
    /// pavlov_tune::child_main(&[&builder.as_trainable()]);
    /// let mut trainer = builder.build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_trainable(&self) -> TrainableFactory {
        factory(&self.settings, &self.env, &self.code)
    }

    /// Makes the run: its workers, its plan and its driver.
    ///
    /// # Errors
    /// Returns [`Error::Tune`] if a setting or an option breaks a rule, if the environment or a policy
    /// cannot be made, or if the run directory holds a run that is not to be continued.
    pub fn build(self) -> Result<Driver<Algorithm<T>>> {
        let algorithm = Algorithm::with_code(self.settings, self.env, self.code);
        Ok(Driver::with(algorithm, Config::new(), self.options)?)
    }
}
