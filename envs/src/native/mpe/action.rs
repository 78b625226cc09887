//! Actions of particle agents: push in a direction, say a word, or both.

use super::world::Body;
use crate::{Element, Space};

/// Number of pushes: none, left, right, down, up.
const PUSHES: usize = 5;

/// Action types of [`ParticleEnv`](super::ParticleEnv): `i64` (discrete) and `f32` (continuous).
pub trait ParticleAction: Element + Act {}

impl ParticleAction for i64 {}
impl ParticleAction for f32 {}

/// Decoding of an action type.
pub trait Act: Sized {
    /// Action space of an agent; `moves` says whether it can move, `words` is the number of words it can say.
    fn space(moves: bool, words: usize) -> Space;

    /// Applies an action, which must be in the agent's space, to the force and the speech of the agent.
    fn act(action: &[Self], words: usize, agent: &mut Body);
}

impl Act for i64 {
    fn space(moves: bool, words: usize) -> Space {
        let pushes = if moves { PUSHES } else { 1 };
        Space::discrete((pushes * words.max(1)) as i64)
    }

    fn act(action: &[i64], words: usize, agent: &mut Body) {
        let mut action = action[0] as usize;
        if agent.movable {
            let push = [[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]][action % PUSHES];
            agent.force = push.map(|push| push * agent.accel);
            action /= PUSHES;
        }
        if !agent.silent {
            agent.speech[..words].fill(0.0);
            agent.speech[action] = 1.0;
        }
    }
}

impl Act for f32 {
    fn space(moves: bool, words: usize) -> Space {
        Space::boxed(0.0, 1.0, &[words + if moves { PUSHES } else { 0 }])
    }

    /// Rounds the difference of two pushes to single precision, as numpy does.
    fn act(action: &[f32], words: usize, agent: &mut Body) {
        let at = |i: usize| action[i].clamp(0.0, 1.0);
        let mut first_word = 0;
        if agent.movable {
            let push = [f64::from(at(2) - at(1)), f64::from(at(4) - at(3))];
            agent.force = push.map(|push| push * agent.accel);
            first_word = PUSHES;
        }
        if !agent.silent {
            for (word, loudness) in agent.speech[..words].iter_mut().enumerate() {
                *loudness = f64::from(at(first_word + word));
            }
        }
    }
}
