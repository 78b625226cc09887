//! CartPole without its two velocities (RLlib's `StatelessCartPole`), which a policy can balance only with memory.

use super::cartpole::{CartPole, CartPoleConfig};
use crate::native::entry::{Entry, single};
use crate::{Env, Result, Space, wrappers::TransformObservation};

/// Copies the cart's position and the pole's angle out of an observation of CartPole.
type Positions = fn(&[f32], &mut [f32]);

/// A [`CartPole`] whose observation is the cart's position and the pole's angle, without velocities.
pub(super) type StatelessCartPole = TransformObservation<CartPole, f32, Positions>;

/// Returns the registry entry.
pub(super) fn entry() -> Entry {
    let summary = "balance a pole on a cart without being told how fast they move: remember";
    single("StatelessCartPole-v1", summary, Some(500), Some(475.0), None, make)
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
