//! Settings of a Python environment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{EnvConfig, Error, Result, registry::env_config::decode_config};

/// Largest `timeout_s` that is accepted, more than thirty years.
const MAX_SECONDS: f64 = 1e9;

/// The `env_config` of a Python environment.
///
/// ```
/// use pavlov_envs::{EnvConfig, EnvCreator};
///
/// let config: EnvConfig = serde_json::from_str(r#"{"kwargs": {"gravity": 5.0}, "num_workers": 2}"#).unwrap();
/// let creator = EnvCreator::from("py:Acrobot-v1"); // `creator.make_vec(&config, 16)` starts Python.
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PyConfig {
    /// Keyword arguments of `gymnasium.make` or `parallel_env`, for instance `render_mode = "rgb_array"`, which
    /// rendering needs.
    pub kwargs: EnvConfig,
    /// Python interpreter; `None`: the one in the environment variable `PAVLOV_PYTHON`, else `python3`.
    pub python: Option<String>,
    /// Maximum number of worker processes: there are never more than copies, so that with a large number each copy lives in a
    /// process of its own. `None`: a few steps are timed, and heavy environments get one worker per core, light ones fewer;
    /// the choice is logged.
    pub num_workers: Option<usize>,
    /// Seconds that a reset or a step may take before the worker counts as hung; the start may take five times as long.
    pub timeout_s: f64,
    /// Keys of numbers in `info` to pass on (see [`VectorEnv::info`](crate::VectorEnv::info)); `episode/r` is `r` inside of
    /// `episode`. After a step that ends an episode they are the ended episode's.
    pub info_keys: Vec<String>,
    /// How a worker steps its copies.
    pub vectorization: Vectorization,
    /// Weights that make one reward of several, for an environment with several objectives whose reward is a list or a
    /// vector: the sum of its numbers, each times its weight. `None`: the reward is one number.
    pub reward_weights: Option<Vec<f64>>,
    /// Wrappers in Python around each environment, the first one innermost: a name of Gymnasium's or MiniGrid's, or
    /// `module:Wrapper` of any installed module, with literal arguments, such as `gymnasium.wrappers:FilterObservation(["a"])`.
    /// What they learn, such as running means, is in no checkpoint.
    pub wrappers: Vec<String>,
}

/// How a worker of a Python environment steps its copies.
///
/// `VectorEntryPoint` and `Envpool` are faster than `Loop` if Python's vector environment has threads or uses numpy.
/// They get one worker unless [`num_workers`](PyConfig::num_workers) is set, and no episode can be saved in its middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vectorization {
    /// A loop over copies made by `gymnasium.make(id)`.
    Loop,
    /// `gymnasium.make_vec(id)` with its vector entry point, which for instance ale-py's `AtariVectorEnv` has. Its ended
    /// rows are reset by `options["reset_mask"]` with the caller's seeds, unless its autoreset mode is `SAME_STEP`: then
    /// seeds are used at `reset` only. An environment that can do neither is refused, such as Gymnasium's
    /// `CartPoleVectorEnv`.
    VectorEntryPoint,
    /// `envpool.make(id)`: `reset` uses the first row's seed and counts on from it for the other rows; later seeds are
    /// ignored. `kwargs` are EnvPool's. Copies whose seeds depend on each other make a run depend on their number, which
    /// trainers say once.
    Envpool,
}

impl Default for PyConfig {
    fn default() -> Self {
        Self {
            kwargs: EnvConfig::new(),
            python: None,
            num_workers: None,
            timeout_s: 300.0,
            info_keys: vec![],
            vectorization: Vectorization::Loop,
            reward_weights: None,
            wrappers: vec![],
        }
    }
}

impl PyConfig {
    /// Decodes and checks the `env_config` of `env`.
    pub(super) fn decode(env: &str, config: &EnvConfig, num_envs: usize) -> Result<Self> {
        let mut config: Self = decode_config(env, config)?;
        let refuse = |message| Err(Error::Config { env: env.into(), message });
        if config.num_workers == Some(0) {
            return refuse("`num_workers` is 0, but it must be at least 1".into());
        }
        config.num_workers = config.num_workers.map(|workers| workers.min(num_envs));
        if !(config.timeout_s > 0.0 && config.timeout_s <= MAX_SECONDS) {
            let given = config.timeout_s;
            return refuse(format!(
                "`timeout_s` is {given}, but it must be above 0 and at most {MAX_SECONDS}"
            ));
        }
        if let Some(weights) = &config.reward_weights {
            if weights.is_empty() {
                return refuse(
                    "`reward_weights` is [], but it must have one weight for each number of the reward"
                        .into(),
                );
            }
            if config.vectorization != Vectorization::Loop {
                return refuse("`reward_weights` is given, which only vectorization \"loop\" uses".into());
            }
        }
        if !config.wrappers.is_empty() && config.vectorization != Vectorization::Loop {
            return refuse("`wrappers` is given, which only vectorization \"loop\" uses".into());
        }
        Ok(config)
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_s)
    }

    /// Time limit of a start: five times `timeout`, because imports and compilation take long.
    pub(super) fn start_timeout(&self) -> Duration {
        5 * self.timeout()
    }

    pub(super) fn interpreter(&self) -> String {
        let set = || std::env::var("PAVLOV_PYTHON").ok().filter(|python| !python.is_empty());
        self.python.clone().or_else(set).unwrap_or_else(|| "python3".into())
    }
}
