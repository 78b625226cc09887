//! Settings that every environment takes beside its own: `num_threads` and `reset_options`.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    AnyMultiAgentEnv, AnyVectorEnv, Env, EnvConfig, Error, MultiAgentVector, ResetOptions, Result,
    SyncVectorEnv, ThreadVectorEnv,
};

/// Makes `num_envs` copies with `make`, stepped in one loop, or on threads in `num_threads` blocks (at most one per copy) if
/// there are at least two.
pub(crate) fn stepped<E: Env>(
    num_envs: usize,
    num_threads: usize,
    make: impl FnMut() -> Result<E>,
) -> Result<Box<dyn AnyVectorEnv>> {
    match num_threads.min(num_envs) {
        0 | 1 => Ok(Box::new(SyncVectorEnv::new(num_envs, make)?)),
        blocks => Ok(Box::new(ThreadVectorEnv::of_env(num_envs, blocks, make)?)),
    }
}

/// Makes a vector of `num_envs` copies of an environment with several agents. The key `num_threads` of `config` is the number
/// of threads that step them; `make` makes a copy from the other settings.
pub(crate) fn stepped_agents(
    env: &str,
    config: &EnvConfig,
    num_envs: usize,
    make: &dyn Fn(&EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>>,
) -> Result<MultiAgentVector> {
    let (config, num_threads) = split_threads::<()>(env, config)?;
    let copies = (0..num_envs).map(|_| make(&config)).collect::<Result<_>>()?;
    Ok(MultiAgentVector::new(copies)?.with_threads(num_threads))
}

/// Takes the key `num_threads` out of an `env_config`; returns the other settings and the number. The number is 1, and
/// nothing is taken out, if the key is absent or if the settings `C` of the environment have a key of this name themselves.
pub(crate) fn split_threads<C: Default + serde::Serialize>(
    env: &str,
    config: &EnvConfig,
) -> Result<(EnvConfig, usize)> {
    const KEY: &str = "num_threads";
    let mut config = config.clone();
    let is_own = || serde_json::to_value(C::default()).is_ok_and(|own| own.get(KEY).is_some());
    let Some(given) = config.get(KEY).filter(|_| !is_own()).cloned() else { return Ok((config, 1)) };
    config.shift_remove(KEY);
    match given.as_u64() {
        Some(threads) if threads > 0 => Ok((config, threads as usize)),
        _ => {
            let message = format!("`{KEY}` is {given}, but it must be a whole number of threads, at least 1");
            Err(Error::Config { env: env.into(), message })
        }
    }
}

/// Takes the key `reset_options` out of an `env_config`; returns the other settings and the options.
pub(crate) fn split_options<'c>(
    env: &str,
    config: &'c EnvConfig,
) -> Result<(Cow<'c, EnvConfig>, Option<ResetOptions>)> {
    const KEY: &str = "reset_options";
    match config.get(KEY) {
        None => Ok((Cow::Borrowed(config), None)),
        Some(Value::Object(options)) => {
            let mut others = config.clone();
            others.shift_remove(KEY);
            Ok((Cow::Owned(others), Some(options.clone())))
        }
        Some(other) => {
            let message = format!("`{KEY}` is {other}, but it must be a table of options for `reset`");
            Err(Error::Config { env: env.into(), message })
        }
    }
}
