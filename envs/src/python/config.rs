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
    /// Number of worker processes, at most as many as copies. `None`: a few steps are timed, and heavy environments get one
    /// worker per core, light ones fewer; the choice is logged.
    pub num_workers: Option<usize>,
    /// Seconds that a reset or a step may take before the worker counts as hung; the start may take five times as long.
    pub timeout_s: f64,
    /// Keys of numbers in `info` to pass on (see [`VectorEnv::info`](crate::VectorEnv::info)); `episode/r` is `r` inside of
    /// `episode`. After a step that ends an episode they are the ended episode's.
    pub info_keys: Vec<String>,
    /// How a worker steps its copies.
    pub vectorization: Vectorization,
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
        }
    }
}

impl PyConfig {
    /// Decodes and checks the `env_config` of `env`.
    pub(super) fn decode(env: &str, config: &EnvConfig, num_envs: usize) -> Result<Self> {
        let config: Self = decode_config(env, config)?;
        let refuse = |message| Err(Error::Config { env: env.into(), message });
        if config.num_workers.is_some_and(|workers| workers == 0 || workers > num_envs) {
            let given = config.num_workers.unwrap_or(0);
            return refuse(format!("`num_workers` is {given}, but it must be in 1..={num_envs} (copies)"));
        }
        if !(config.timeout_s > 0.0 && config.timeout_s <= MAX_SECONDS) {
            let given = config.timeout_s;
            return refuse(format!(
                "`timeout_s` is {given}, but it must be above 0 and at most {MAX_SECONDS}"
            ));
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
