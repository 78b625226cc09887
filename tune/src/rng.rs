//! Random numbers from a seed, the same on every machine.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Stream `number` of `seed`: streams of different numbers never meet.
pub fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(number);
    generator
}
