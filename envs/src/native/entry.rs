//! Registry entries of native environments.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::classic_control::{classic::ClassicControl, classic_vector::ClassicVector};
use crate::{
    AnyMultiAgentEnv, Env, EnvConfig, EnvCreator, EnvSpec, Result,
    registry::common_settings::{split_threads, stepped},
    registry::env_config::decode_config,
};

/// Registry entry of a single-agent environment.
pub(super) type Entry = (EnvSpec, EnvCreator);
/// Registry entry of a multi-agent environment.
pub(super) type MultiAgentEntry = (EnvSpec, fn(&EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>>);

pub(super) fn classic<D, const S: usize, const O: usize>(
    id: &'static str,
    summary: &str,
    limit: usize,
    reward_threshold: Option<f64>,
    make: fn(usize, usize, D) -> ClassicVector<D, S, O>,
) -> Entry
where
    D: ClassicControl<S, O> + Default + Serialize + DeserializeOwned,
{
    let creator = EnvCreator::new(id, move |config, num_envs| {
        Ok(Box::new(make(num_envs, usize::MAX, decode_config(id, config)?)))
    });
    limited(spec(id, summary, Some(limit), reward_threshold), creator)
}

/// Makes the entry of an environment whose copies are stepped one by one, or on as many threads as the setting `num_threads`
/// says. `preset` is the name of a setting and the default that it has for this id.
pub(super) fn single<C, E>(
    id: &'static str,
    summary: &str,
    limit: Option<usize>,
    reward_threshold: Option<f64>,
    preset: Option<(&'static str, Value)>,
    make: fn(C) -> Result<E>,
) -> Entry
where
    C: Default + Serialize + DeserializeOwned + 'static,
    E: Env + Clone,
{
    let creator = EnvCreator::new(id, move |config, num_envs| {
        let (mut config, num_threads) = split_threads::<C>(id, config)?;
        if let Some((key, value)) = &preset {
            config.entry(*key).or_insert_with(|| value.clone());
        }
        // Clones share immutable data such as the transition table.
        let env = make(decode_config(id, &config)?)?;
        stepped(num_envs, num_threads, || Ok(env.clone()))
    });
    limited(spec(id, summary, limit, reward_threshold), creator)
}

/// Makes the entry of an environment whose episodes are truncated after `spec.max_episode_steps` by what steps its copies,
/// as for [`register`](crate::register).
pub(super) fn limited(spec: EnvSpec, creator: EnvCreator) -> Entry {
    let creator = match spec.max_episode_steps {
        Some(steps) => creator.limited(steps),
        None => creator,
    };
    (spec, creator)
}

pub(super) fn spec(
    id: &str,
    summary: &str,
    max_episode_steps: Option<usize>,
    reward_threshold: Option<f64>,
) -> EnvSpec {
    EnvSpec { id: id.into(), summary: summary.into(), max_episode_steps, reward_threshold }
}

pub(super) fn no_settings(id: &str, config: &EnvConfig) -> Result<()> {
    #[derive(Default, serde::Serialize, serde::Deserialize)]
    struct NoSettings {}
    decode_config::<NoSettings>(id, config).map(|_| ())
}
