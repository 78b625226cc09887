//! Multi-agent particle environments (MPE), equal to those of the package mpe2.

mod action;
mod observation;
mod particle_env;
mod picture;
mod scenario;
mod simple;
mod simple_adversary;
mod simple_crypto;
mod simple_push;
mod simple_reference;
mod simple_speaker_listener;
mod simple_spread;
mod simple_tag;
mod simple_world_comm;
mod world;

pub use action::ParticleAction;
pub use particle_env::ParticleEnv;
pub use simple::{Simple, SimpleConfig};
pub use simple_adversary::{SimpleAdversary, SimpleAdversaryConfig};
pub use simple_crypto::{SimpleCrypto, SimpleCryptoConfig};
pub use simple_push::{SimplePush, SimplePushConfig};
pub use simple_reference::{SimpleReference, SimpleReferenceConfig};
pub use simple_speaker_listener::{SimpleSpeakerListener, SimpleSpeakerListenerConfig};
pub use simple_spread::{SimpleSpread, SimpleSpreadConfig};
pub use simple_tag::{SimpleTag, SimpleTagConfig};
pub use simple_world_comm::{SimpleWorldComm, SimpleWorldCommConfig};

use super::entry::{MultiAgentEntry, spec};
use crate::{AnyMultiAgentEnv, EnvConfig, Result, registry::env_config::decode_config};
use scenario::Scenario;
use serde::{Deserialize, Serialize};

pub(super) fn entries() -> Vec<MultiAgentEntry> {
    vec![
        entry::<SimpleConfig>("go to a landmark, alone"),
        entry::<SimpleAdversaryConfig>("stay near a landmark without showing an adversary which one it is"),
        entry::<SimpleCryptoConfig>("send a secret word to a friend while an adversary listens"),
        entry::<SimplePushConfig>("go to a landmark, or keep the other from it"),
        entry::<SimpleReferenceConfig>("tell each other which landmark to go to"),
        entry::<SimpleSpeakerListenerConfig>("one tells the other which landmark to go to"),
        entry::<SimpleSpreadConfig>("cover landmarks together and keep off each other"),
        entry::<SimpleTagConfig>("catch faster prey together, or flee"),
        entry::<SimpleWorldCommConfig>(
            "hunt among forests with a leader who sees into them, or flee and eat",
        ),
    ]
}

fn entry<S: Scenario>(summary: &str) -> MultiAgentEntry {
    (spec(S::ID, summary, Some(S::default().common().max_cycles), None), make::<S>)
}

fn make<S: Scenario>(config: &EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> {
    /// What `env_config` holds: the settings of the scenario, and the kind of actions, a type parameter in Rust.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(bound = "S: Scenario")]
    struct Settings<S> {
        continuous_actions: bool,
        #[serde(flatten)]
        scenario: S,
    }

    let Settings::<S> { continuous_actions, scenario } = decode_config(S::ID, config)?;
    Ok(match continuous_actions {
        true => Box::new(ParticleEnv::<S, f32>::new(scenario)?),
        false => Box::new(ParticleEnv::<S, i64>::new(scenario)?),
    })
}
