//! Random numbers from a seed, the same on every machine.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Returns the generator for stream `number` of `seed`. Different streams of one seed do not overlap.
pub fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(number);
    generator
}
