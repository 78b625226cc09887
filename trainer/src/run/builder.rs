//! What users call on any [`Trainer`]: from its settings to a [`Driver`] or a sweep.

use crate::base::{PolicyId, Result};
use crate::learn::nets::CustomModel;
use crate::policy::PolicyClass;
use crate::run::algorithm::Algorithm;
use crate::run::recipe::Recipe;
use crate::run::trainer::Trainer;
use crate::sample::{Callbacks, CallbacksMaker};
use crate::workers::serve;
use pavlov_envs::{EnvCreator, IntoEnvCreator};
use pavlov_tune::{Config, Driver, LoggerChoice, RunOptions, TrainableFactory};
use std::path::PathBuf;
use std::sync::Arc;

/// What users call on any [`Trainer`]. Implemented for all; do not implement it.
pub trait TrainerExt: Trainer {
    /// Makes it ready to train: `Ppo::get_default_config().build("CartPole-v1")?.train()?`.
    ///
    /// The environment is an id, a closure that makes one copy, or an [`EnvCreator`].
    /// Nothing is written before the first result or checkpoint.
    ///
    /// # Errors
    /// Returns [`Error::Tune`](crate::Error::Tune) if a setting breaks a rule, or the environment or a policy cannot be
    /// made.
    fn build(self, env: impl IntoEnvCreator) -> Result<Driver<Algorithm<Self>>> {
        self.builder(env).build()
    }

    /// What a sweep trains: trials whose settings go over these.
    ///
    /// ```no_run
    /// use pavlov_tune::{Tuner, search::loguniform};
    /// # fn sweep<T: pavlov_trainer::Trainer>(ppo: T) -> pavlov_tune::Result<()> {
    /// # use pavlov_trainer::TrainerExt;
    /// let space = serde_json::json!({"lr": loguniform(1e-4, 1e-2)});
    /// let mut tuner = Tuner::new(ppo.as_trainable("CartPole-v1"), space);
    /// tuner.tune_config.num_samples = 4;
    /// let grid = tuner.fit()?;
    /// # Ok(())
    /// # }
    /// ```
    fn as_trainable(&self, env: impl IntoEnvCreator) -> TrainableFactory {
        factory(&Recipe::new(self.clone(), env.into_env_creator()))
    }

    /// A builder: [`build`](Self::build) with callbacks, a run directory or loggers of your own.
    fn builder(self, env: impl IntoEnvCreator) -> Builder<Self> {
        Builder::new(self, env.into_env_creator())
    }
}

impl<T: Trainer> TrainerExt for T {}

/// What makes the algorithm in trials, and its rollout workers in processes.
fn factory<T: Trainer>(recipe: &Recipe<T>) -> TrainableFactory {
    let (trials, workers) = (recipe.clone(), recipe.clone());
    TrainableFactory::new(recipe.name(), move |_| Ok(Algorithm::from(trials.clone()))).with_rollout_workers(
        move |socket| {
            let recipe = workers.clone();
            Ok(serve(socket, move |names| recipe.worker_spec(names))?)
        },
    )
}

/// A [`Driver`] in the making.
#[derive(Debug)]
pub struct Builder<T: Trainer> {
    recipe: Recipe<T>,
    options: RunOptions,
}

impl<T: Trainer> Builder<T> {
    /// A builder of a run with these settings in this environment.
    pub fn new(settings: T, env: EnvCreator) -> Self {
        let recipe = Recipe::new(settings, env);
        let options = RunOptions {
            name: Some(recipe.name()),
            log_sys_usage: recipe.settings.common().log_sys_usage,
            ..RunOptions::default()
        };
        Self { recipe, options }
    }

    /// Calls these hooks; each worker makes an instance of its own.
    #[must_use]
    pub fn callbacks<C: Callbacks + 'static>(mut self, make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        self.recipe.callbacks = Some(CallbacksMaker::new(make));
        self
    }

    /// Puts this network in the place of the `model` settings' own layers. What restores the run must say so too.
    #[must_use]
    pub fn custom_model(mut self, model: CustomModel) -> Self {
        self.recipe.custom_model = Some(model);
        self
    }

    /// Trains this policy instead of the algorithm's own. What restores the run must say so too.
    #[must_use]
    pub fn policy_class(mut self, policy_class: PolicyClass) -> Self {
        self.recipe.policy_class = Some(policy_class);
        self
    }

    /// Asks this function which policy an agent acts by, once for each agent when the run is set up. The answers stand in the
    /// settings from then on (`multiagent.policy_mapping_fn`) and go before the patterns there. A function that is asked for
    /// each episode has a name: see [`register_policy_mapping_fn`](crate::register_policy_mapping_fn).
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
        self.recipe.policy_mapping_fn = Some(Arc::new(move |agent| mapping(agent).into()));
        self
    }

    /// Writes to this run directory; one that exists is continued.
    #[must_use]
    pub fn logdir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.options.logdir = Some(dir.into());
        self
    }

    /// Says which loggers see the results.
    #[must_use]
    pub fn loggers(mut self, loggers: LoggerChoice) -> Self {
        self.options.loggers = loggers;
        self
    }

    /// Changes everything else about the run.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut RunOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// What `child_main` and a sweep get: this algorithm with its callbacks, network and policy. With `workers = "procs"` the
    /// processes of rollout workers are made from it.
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
        factory(&self.recipe)
    }

    /// Makes the workers and the plan.
    ///
    /// # Errors
    /// Returns [`Error::Tune`](crate::Error::Tune) if a setting or an option breaks a rule, or the environment or a
    /// policy cannot be made.
    pub fn build(self) -> Result<Driver<Algorithm<T>>> {
        Ok(Driver::with(Algorithm::from(self.recipe), Config::new(), self.options)?)
    }
}
