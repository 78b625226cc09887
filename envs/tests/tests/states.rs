//! Changes fields of saved states, for tests that need a state that no episode leads to.

use pavlov_envs::NpRandom;
use serde::{Serialize, de::DeserializeOwned};

const HEADER: &[u8] = b"pvl\x03";

/// Returns the fields of a saved state, whose types the caller must know.
pub(crate) fn fields<T: DeserializeOwned>(state: &[u8]) -> T {
    let fields: (String, T) = postcard::from_bytes(&state[HEADER.len()..]).expect("fields of these types");
    fields.1
}

/// Returns the state with its fields changed by `change`.
pub(crate) fn edited<T: Serialize + DeserializeOwned>(state: &[u8], change: impl FnOnce(&mut T)) -> Vec<u8> {
    let (tag, mut fields): (String, T) =
        postcard::from_bytes(&state[HEADER.len()..]).expect("fields of these types");
    change(&mut fields);
    [HEADER, &postcard::to_allocvec(&(tag, fields)).unwrap()].concat()
}

/// Position, velocity, acceleration, largest speed, and loudness of each word of an agent.
pub(crate) type Particle = ([f64; 2], [f64; 2], f64, f64, [f64; 10]);

/// Random stream, goals, agents, positions of landmarks, step, range at the start, and stage of a particle environment.
pub(crate) type Particles = (NpRandom, [usize; 2], Vec<Particle>, Vec<[f64; 2]>, usize, f64, usize);
