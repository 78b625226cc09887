//! Registry entries of LunarLander.

use serde::{Deserialize, Serialize};

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

/// What `env_config` holds: the settings of the lander, and the kind of actions, a type parameter in Rust.
#[derive(Default, Serialize, Deserialize)]
struct Settings {
    continuous: bool,
    #[serde(flatten)]
    lander: LunarLanderConfig,
}

fn entry(id: &'static str, summary: &str, continuous: bool) -> Entry {
    let creator = EnvCreator::new(id, move |config, num_envs| {
        let (mut config, num_threads) = split_threads::<Settings>(id, config)?;
        config.entry("continuous").or_insert_with(|| continuous.into());
        let Settings { continuous, lander } = decode_config(id, &config)?;
        if continuous {
            let env = LunarLander::<f32>::new(lander)?;
            stepped(num_envs, num_threads, || Ok(env.clone()))
        } else {
            let env = LunarLander::<i64>::new(lander)?;
            stepped(num_envs, num_threads, || Ok(env.clone()))
        }
    });
    limited(spec(id, summary, Some(1000), Some(200.0)), creator)
}
