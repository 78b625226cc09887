//! Settings of a Python environment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{EnvConfig, Error, Result, env_config::decode_config};

/// More than thirty years.
const MOST_SECONDS: f64 = 1e9;

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
    /// The interpreter; then the environment variable `PAVLOV_PYTHON`, then `python3`.
    pub python: Option<String>,
    /// Worker processes, at most as many as copies. Without it a few steps are timed and heavy environments get one
    /// worker per core, light ones fewer; the choice is logged.
    pub num_workers: Option<usize>,
    /// Seconds that a reset or a step may take before the worker counts as hung; a start may take five times as long.
    pub timeout_s: f64,
    /// Numbers in `info` to hand on (see [`VectorEnv::info`](crate::VectorEnv::info)); `episode/r` is `r` inside of
    /// `episode`. Of a step that ends an episode they are the ended episode's.
    pub info_keys: Vec<String>,
    /// What steps the copies of one worker.
    pub vectorization: Vectorization,
}

/// What steps the copies of one worker.
///
/// Hosted vector environments are faster where they have threads or numpy arithmetic of their own. They get one worker
/// unless [`num_workers`](PyConfig::num_workers) says otherwise, and cannot be brought back to the middle of episodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vectorization {
    /// A loop over `gymnasium.make(id)`.
    Loop,
    /// `gymnasium.make_vec(id)` by its vector entry point, as ale-py's `AtariVectorEnv` has one. Its ended rows are
    /// reset by `options["reset_mask"]` with the caller's seeds, unless its autoreset mode is `SAME_STEP`: then
    /// seeds count at `reset` only. One that can do neither is refused, as Gymnasium's `CartPoleVectorEnv`.
    VectorEntryPoint,
    /// `envpool.make(id)`: takes the first row's seed at `reset`, counts on from it for the others, and no seeds
    /// later; `kwargs` are EnvPool's. Copies that depend on each other's seeds break the contract that trainers test:
    /// give them `disable_env_checking = true`.
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
        if !(config.timeout_s > 0.0 && config.timeout_s <= MOST_SECONDS) {
            let given = config.timeout_s;
            return refuse(format!(
                "`timeout_s` is {given}, but it must be above 0 and at most {MOST_SECONDS}"
            ));
        }
        Ok(config)
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_s)
    }

    /// Imports and whatever is compiled then take their time.
    pub(super) fn start_timeout(&self) -> Duration {
        5 * self.timeout()
    }

    pub(super) fn interpreter(&self) -> String {
        let set = || std::env::var("PAVLOV_PYTHON").ok().filter(|python| !python.is_empty());
        self.python.clone().or_else(set).unwrap_or_else(|| "python3".into())
    }
}
