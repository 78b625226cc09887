//! Registry entries of LunarLander.

use super::{LunarLander, LunarLanderConfig};
use crate::{
    EnvCreator,
    native::entry::{Entry, limited, spec},
    registry::{
        common_settings::{split_threads, stepped},
        env_config::decode_config,
    },
};

/// Returns the registry entries of LunarLander.
pub(in crate::native) fn entries() -> Vec<Entry> {
    let summary = "land between two flags with little fuel";
    vec![
        entry("LunarLander-v3", summary, false),
        entry("LunarLanderContinuous-v3", "land between two flags with engines that have throttles", true),
    ]
}

fn entry(id: &'static str, summary: &str, continuous: bool) -> Entry {
    let creator = EnvCreator::new(id, move |config, num_envs| {
        let (mut config, num_threads) = split_threads::<LunarLanderConfig>(id, config)?;
        config.entry("continuous").or_insert_with(|| continuous.into());
        let config: LunarLanderConfig = decode_config(id, &config)?;
        if config.continuous {
            let env = LunarLander::<f32>::new(config)?;
            stepped(num_envs, num_threads, || Ok(env.clone()))
        } else {
            let env = LunarLander::<i64>::new(config)?;
            stepped(num_envs, num_threads, || Ok(env.clone()))
        }
    });
    limited(spec(id, summary, Some(1000), Some(200.0)), creator)
}
