//! CartPole without its two velocities (RLlib's `StatelessCartPole`), which a policy can balance only with memory.

use super::cartpole::{CartPole, CartPoleConfig};
use crate::native::entry::{Entry, limited, spec};
use crate::registry::common_settings::{split_threads, stepped};
use crate::registry::env_config::decode_config;
use crate::{Env, EnvCreator, Result, Space, wrappers::TransformObservation};

/// Copies the cart's position and the pole's angle out of an observation of CartPole.
type Positions = fn(&[f32], &mut [f32]);

/// A [`CartPole`] whose observation is the cart's position and the pole's angle, without velocities.
pub(super) type StatelessCartPole = TransformObservation<CartPole, f32, Positions>;

/// Returns the registry entry. Each copy is made anew, since a clone would begin with the same random stream.
pub(super) fn entry() -> Entry {
    let id = "StatelessCartPole-v1";
    let summary = "balance a pole on a cart without being told how fast they move: remember";
    let creator = EnvCreator::new(id, move |config, num_envs| {
        let (config, num_threads) = split_threads::<CartPoleConfig>(id, config)?;
        let config: CartPoleConfig = decode_config(id, &config)?;
        stepped(num_envs, num_threads, || make(config))
    });
    limited(spec(id, summary, Some(500), Some(475.0)), creator)
}

fn make(config: CartPoleConfig) -> Result<StatelessCartPole> {
    let env = CartPole::new(config);
    let Space::Box { low, high, .. } = env.observation_space() else {
        unreachable!("CartPole observes a Box")
    };
    let space = Space::bounded(&[low[0], low[2]], &[high[0], high[2]])?;
    TransformObservation::new(env, space, |all, shown| {
        shown[0] = all[0];
        shown[1] = all[2];
    })
}
