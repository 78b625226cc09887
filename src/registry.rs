//! Registry of algorithms by name, for the command and for programs that get a name at run time.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{LazyLock, RwLock};

use pavlov_algorithms::{Ddpg, Dqn, Impala, Ppo, Qmix, Sac, Td3};
use pavlov_envs::EnvCreator;
use pavlov_trainer::agents::{Agent, EnvInfo, Policies};
use pavlov_trainer::batch::PolicyId;
use pavlov_trainer::workers::Code;
use pavlov_trainer::{
    Algorithm, Common, Result, Session, Trainer, TrainerExt, load_session_with, notices, overlay_what_fits,
    policies_of, refuse_illegal_moves, refuse_large_image_in_parts, resolve, settings::rules, to_config,
    validate,
};
use pavlov_tune::config::{Layer, Resolved, decode, nearest};
use pavlov_tune::{self as tune, Config, Driver, RunOptions, TrainableFactory};

pub use crate::any_algorithm::AnyAlgorithm;

/// Errors of the registry and of presets.
///
/// `{:?}` prints the sentence of `{}` and the name of the variant, so that a `main` that returns this error prints it.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No algorithm or preset has this name.
    #[error("no {what} {name:?}{}; there is {}", or_nearest(nearest.as_deref()), known.join(", "))]
    Unknown {
        /// Kind of name that was looked up: "algorithm" or "preset".
        what: &'static str,
        /// The name that was looked up.
        name: String,
        /// The most similar name, if one is similar.
        nearest: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// An algorithm with this name is registered already.
    #[error("an algorithm {name:?} is registered already; choose another `Trainer::NAME`")]
    Taken {
        /// The name that was to be registered.
        name: String,
    },
    /// The text of a preset cannot be read.
    #[error("{name}: {reason}")]
    Preset {
        /// The name of the preset, or its file.
        name: String,
        /// Description of the error, with its place in the text.
        reason: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Error::Unknown { .. } => "Unknown",
            Error::Taken { .. } => "Taken",
            Error::Preset { .. } => "Preset",
        };
        write!(f, "{self} [{variant}]")
    }
}

impl From<Error> for pavlov_trainer::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

fn or_nearest(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; nearest: {name}")).unwrap_or_default()
}

impl Error {
    pub(crate) fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let near = nearest(name, known.clone()).map(str::to_owned);
        Error::Unknown { what, name: name.into(), nearest: near, known: known.map(str::to_owned).collect() }
    }
}

/// Function that lays settings over the defaults; returns those that fit, and the errors of the others.
type Resolve = fn(Vec<Layer>) -> Result<(Resolved, Result<()>)>;

/// Function that applies the rules of the algorithm to settings in an environment; also returns the policies of its agents
/// and the notices.
type Validated = fn(&Config, &EnvInfo) -> Result<(Config, Common, Policies, Vec<String>)>;

/// An algorithm in the registry.
#[derive(Clone)]
pub struct AlgorithmEntry {
    name: &'static str,
    summary: &'static str,
    arithmetic: Option<fn(&Common) -> String>,
    resolve: Resolve,
    default_config: fn() -> Result<Config>,
    validated: Validated,
    make: fn(&Config, EnvCreator) -> Result<Box<dyn AnyAlgorithm>>,
    /// Makes the trainable whose rollout workers a trial uses.
    workers: fn(EnvCreator) -> TrainableFactory,
    load: fn(&Path, Option<&str>, usize, &Code) -> Result<Session>,
}

impl fmt::Debug for AlgorithmEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlgorithmEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Settings after the algorithm's rules: those with which a run would really train.
#[derive(Clone, Debug)]
pub struct Effective {
    /// Complete settings after the rules of the algorithm were applied, each with its origin.
    pub resolved: Resolved,
    /// Sentence that explains how workers, copies and fragments make one training batch; `None` for an algorithm that learns
    /// from a replay buffer.
    pub batch_arithmetic: Option<String>,
    /// The agents of the environment, in its order, each with the policy by which it acts.
    pub agents: Vec<(String, PolicyId)>,
    /// The policies of `agents` that do not learn.
    pub frozen: BTreeSet<PolicyId>,
    /// What a user should know of these settings although they are allowed: the lines that a run says at its start.
    pub notices: Vec<String>,
}

impl AlgorithmEntry {
    /// Makes an entry for the trainer `T`, under the name `T::NAME`; `summary` describes it in one line.
    pub fn new<T: Trainer>(summary: &'static str) -> Self {
        AlgorithmEntry {
            name: T::NAME,
            summary,
            arithmetic: Some(Common::batch_arithmetic),
            resolve: |layers| Ok(overlay_what_fits::<T>(&to_config(&T::get_default_config())?, layers)),
            default_config: || to_config(&T::get_default_config()),
            validated: |config, env| {
                let mut settings: T = decode(config)?;
                let rules = validate(&mut settings, &env.agents[0].spaces);
                rules::all([rules, refuse_illegal_moves(settings.common(), env)])?;
                refuse_large_image_in_parts(&settings, env)?;
                let policies = policies_of(&settings, &env.agents)?;
                policies.check(&env.agents)?;
                let notices = notices(&settings, env, false);
                Ok((to_config(&settings)?, settings.common().clone(), policies, notices))
            },
            make: |base, env| {
                let (settings, env) = resolve(&T::get_default_config(), base, &env)?;
                Ok(Box::new(Algorithm::new(settings, env)))
            },
            workers: |env| T::get_default_config().as_trainable(env),
            load: load_session_with::<T>,
        }
    }

    /// Marks the algorithm as one that learns from a replay buffer: batches are not made of whole rounds of sampling.
    #[must_use]
    pub fn off_policy(mut self) -> Self {
        self.arithmetic = None;
        self
    }

    /// Marks the algorithm as one whose workers do not wait for each other: batches are made of fragments from any workers.
    #[must_use]
    pub fn asynchronous(mut self) -> Self {
        self.arithmetic = Some(Common::fragment_arithmetic);
        self
    }

    /// Returns the name of the algorithm as users type it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a description of the algorithm in one line.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// Returns every setting with its default.
    ///
    /// # Errors
    /// Returns [`State`](pavlov_trainer::Error::State) if serde does not write the settings as a JSON object.
    pub fn default_config(&self) -> Result<Config> {
        (self.default_config)()
    }

    /// Makes complete settings: `layers` override the defaults, and later layers override earlier ones.
    ///
    /// # Errors
    /// Fails if a setting is unknown, has a value of the wrong kind, has no meaning in pavlov, or has no effect because a
    /// schedule replaces it. The error has a message for each such setting.
    pub fn resolve(&self, layers: Vec<Layer>) -> Result<Resolved> {
        let (resolved, refused) = (self.resolve)(layers)?;
        refused.map(|()| resolved)
    }

    /// Makes complete settings as [`resolve`](Self::resolve) does. If it refuses some of them, the others are also checked
    /// against the algorithm's rules, some of which depend on `env`, so that one error reports all mistakes.
    ///
    /// # Errors
    /// Fails whenever [`resolve`](Self::resolve) does; the error also has the rules that the other settings break.
    pub fn resolve_in(&self, layers: Vec<Layer>, env: &EnvCreator) -> Result<Resolved> {
        let (resolved, refused) = (self.resolve)(layers)?;
        let Err(refused) = refused else { return Ok(resolved) };
        let broken = self.effective(&resolved, env).err();
        tune::Error::all([Some(refused), broken].into_iter().flatten().map(Into::into))?;
        Ok(resolved)
    }

    /// Checks and applies the algorithm's rules to `resolved` in the environment `env`. A setting that a rule adjusts gets
    /// the origin `"fitted"`.
    ///
    /// # Errors
    /// Fails if the environment cannot be made, or if a setting breaks a rule; the error is the one that a run with these
    /// settings would report at its start.
    pub fn effective(&self, resolved: &Resolved, env: &EnvCreator) -> Result<Effective> {
        let common: Common = decode(&resolved.config)?;
        let info = EnvInfo::of(&common.wrap_env(env).make(&common.env_config, 1)?);
        let (fitted, common, policies, notices) = (self.validated)(&resolved.config, &info)?;
        let mut resolved = resolved.clone();
        for (key, value) in &fitted {
            if resolved.config.get(key) != Some(value) && !value.is_object() {
                resolved.origins.insert(key.clone(), "fitted".into());
            }
        }
        resolved.config = fitted;
        let batch_arithmetic = self.arithmetic.map(|arithmetic| arithmetic(&common));
        let by = |agent: &Agent| (agent.name.clone(), policies.of(&agent.name));
        let agents: Vec<(String, PolicyId)> = info.agents.iter().map(by).collect();
        let frozen = agents.iter().map(|(_, id)| id).filter(|id| !policies.trains(id)).cloned().collect();
        Ok(Effective { resolved, batch_arithmetic, agents, frozen, notices })
    }

    /// Builds a driver that is ready to train; `config` overrides the defaults.
    ///
    /// # Errors
    /// Returns [`Tune`](pavlov_trainer::Error::Tune) if a setting or a run option is invalid, or if the environment or a
    /// policy cannot be made.
    pub fn build(
        &self,
        env: EnvCreator,
        config: Config,
        options: RunOptions,
    ) -> Result<Driver<Box<dyn AnyAlgorithm>>> {
        Ok(Driver::with((self.make)(&Config::new(), env)?, config, options)?)
    }

    /// Loads a policy of a checkpoint of this algorithm: see [`load_session`](pavlov_trainer::load_session).
    ///
    /// # Errors
    /// Fails whenever the function [`load_session`](pavlov_trainer::load_session) does.
    pub fn load_session(&self, checkpoint: &Path, policy: Option<&str>, copies: usize) -> Result<Session> {
        self.load_session_with(checkpoint, policy, copies, &Code::default())
    }

    /// Loads a policy of a checkpoint of this algorithm, with a network or a policy class of your own: see
    /// [`load_session_with`].
    ///
    /// # Errors
    /// Fails whenever the function [`load_session_with`] does.
    pub fn load_session_with(
        &self,
        checkpoint: &Path,
        policy: Option<&str>,
        copies: usize,
        code: &Code,
    ) -> Result<Session> {
        (self.load)(checkpoint, policy, copies, code)
    }

    /// Makes a trainable for sweeps: the settings of a trial override `base`, which overrides the defaults.
    pub fn as_trainable(&self, env: EnvCreator, base: Config) -> TrainableFactory {
        let make = self.make;
        let name = format!("{}_{}", self.name, env.name());
        let workers = (self.workers)(env.clone());
        TrainableFactory::new(name, move |_| make(&base, env.clone()).map_err(Into::into))
            .with_rollout_workers_of(&workers)
    }
}

static REGISTRY: LazyLock<RwLock<Vec<AlgorithmEntry>>> = LazyLock::new(|| {
    RwLock::new(vec![
        AlgorithmEntry::new::<Ddpg>("deep deterministic policy gradients: continuous actions, few samples")
            .off_policy(),
        AlgorithmEntry::new::<Dqn>("deep Q-learning from replay: discrete actions, few samples").off_policy(),
        AlgorithmEntry::new::<Impala>(
            "importance-weighted actor-learner: discrete and continuous actions, many workers",
        )
        .asynchronous(),
        AlgorithmEntry::new::<Ppo>("proximal policy optimisation: discrete and continuous actions, robust"),
        AlgorithmEntry::new::<Qmix>("QMIX and VDN: teams of agents with discrete actions and one reward")
            .off_policy(),
        AlgorithmEntry::new::<Sac>("soft actor-critic: continuous and discrete actions, few samples")
            .off_policy(),
        AlgorithmEntry::new::<Td3>("twin delayed DDPG: continuous actions, few samples").off_policy(),
    ])
});

/// Registers an algorithm by its name in this process, also for the commands of [`cli`](crate::cli).
///
/// # Errors
/// Returns [`Error::Taken`] if an algorithm of this name, in upper or lower case, is registered already.
pub fn register(entry: AlgorithmEntry) -> Result<(), Error> {
    let mut registry = REGISTRY.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    if registry.iter().any(|known| known.name.eq_ignore_ascii_case(entry.name)) {
        return Err(Error::Taken { name: entry.name.into() });
    }
    registry.push(entry);
    registry.sort_by_key(|entry| entry.name);
    Ok(())
}

/// Returns the algorithm `name`; upper and lower case do not matter.
///
/// # Errors
/// Returns [`Error::Unknown`], with the nearest name and all names, if no algorithm has this name.
pub fn algorithm(name: &str) -> Result<AlgorithmEntry, Error> {
    let all = algorithms();
    let found = all.iter().find(|entry| entry.name.eq_ignore_ascii_case(name));
    found.cloned().ok_or_else(|| Error::unknown("algorithm", name, all.iter().map(|entry| entry.name)))
}

/// Returns all registered algorithms, sorted by name.
pub fn algorithms() -> Vec<AlgorithmEntry> {
    REGISTRY.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

/// Finds a trainable by its name, such as `PPO_CartPole-v1`, in the processes of rollout workers.
#[cfg(feature = "cli")]
pub fn trainable(name: &str) -> Option<TrainableFactory> {
    let env_of = |entry: &AlgorithmEntry| Some(name.strip_prefix(entry.name)?.strip_prefix('_')?.to_owned());
    let fitting = algorithms().into_iter().filter_map(|entry| Some((env_of(&entry)?, entry)));
    // The name of one algorithm may begin with that of another.
    let (env, entry) = fitting.max_by_key(|(_, entry)| entry.name.len())?;
    Some(entry.as_trainable(env.into(), Config::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pavlov_trainer::WorkerSet;
    use pavlov_trainer::plan::Plan;
    use pavlov_trainer::policy::{PolicyClass, Spaces};
    use pavlov_tune::Resume;
    use serde_json::json;

    #[test]
    fn names_are_found_in_any_case_and_unknown_ones_answered_with_the_nearest() {
        assert_eq!(algorithm("ppo").unwrap().name(), "PPO");
        let message = algorithm("PPOO").unwrap_err().to_string();
        assert!(
            message.starts_with(r#"no algorithm "PPOO"; nearest: PPO; there is DDPG, DQN, "#),
            "{message}"
        );
    }

    /// PPO under another name, as a user's own algorithm.
    #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
    #[serde(transparent)]
    struct Mine(Ppo);

    impl Trainer for Mine {
        const NAME: &'static str = "Mine";

        fn get_default_config() -> Self {
            Mine(Ppo::get_default_config())
        }
        fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
            self.0.validate_config(spaces)
        }
        fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
            self.0.get_default_policy_class(spaces)
        }
        fn execution_plan(&self, workers: &WorkerSet) -> Plan {
            self.0.execution_plan(workers)
        }
        fn common(&self) -> &Common {
            self.0.common()
        }
        fn common_mut(&mut self) -> &mut Common {
            self.0.common_mut()
        }
    }

    #[test]
    fn a_trainer_of_the_users_own_is_trained_saved_and_played_by_name() {
        register(AlgorithmEntry::new::<Mine>("PPO under another name")).unwrap();
        let entry = algorithm("mine").unwrap();
        let values =
            json!({"num_workers": 0, "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1});
        let layer = Layer { origin: "test".into(), values: values.as_object().unwrap().clone().into() };
        let config = entry.resolve(vec![layer]).unwrap().config;
        let dir = tempfile::tempdir().unwrap();
        let options = || RunOptions {
            logdir: Some(dir.path().into()),
            resume: Resume::ByCaller,
            ..RunOptions::default()
        };
        let mut driver = entry.build("CartPole-v1".into(), config.clone(), options()).unwrap();
        assert_eq!(driver.train().unwrap()["timesteps_total"], 32);
        let checkpoint = driver.save().unwrap();
        let returns = |driver: &mut Driver<Box<dyn AnyAlgorithm>>| {
            let played = driver.play(3, 1, false, 0).unwrap();
            played.episodes.iter().map(|episode| episode.total_reward).collect::<Vec<_>>()
        };
        let expected = returns(&mut driver);
        let mut other = entry.build("CartPole-v1".into(), config, options()).unwrap();
        other.restore_policies(&checkpoint).unwrap();
        assert_eq!(returns(&mut other), expected);
        let wrong = algorithm("PPO").unwrap().build("CartPole-v1".into(), Config::new(), options());
        let message = wrong.unwrap().restore_policies(&checkpoint).unwrap_err().to_string();
        assert!(message.contains("it was saved by Mine, but is to be loaded into PPO"), "{message}");
    }

    #[test]
    fn a_taken_name_is_refused() {
        let message = register(AlgorithmEntry::new::<Ppo>("again")).unwrap_err().to_string();
        assert!(message.contains(r#""PPO" is registered already"#), "{message}");
    }
}
