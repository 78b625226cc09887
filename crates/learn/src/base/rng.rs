//! Random streams: seekable, checkpointable, and a function of (root seed, role, index) only.
//!
//! No stream belongs to a worker. An environment copy has its own stream for the actions it is given and its own
//! sequence of episode seeds, both keyed by the copy's index in the whole run, so rollouts do not change when the
//! same copies are spread over another number of workers.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

/// Mixes a root seed, a role and an index into a child seed (SplitMix64's finaliser over FNV-1a of the role).
pub fn derive(root: u64, role: &str, index: u64) -> u64 {
    let role =
        role.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    mix(mix(mix(root) ^ role).wrapping_add(mix(index)))
}

#[inline]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The seed of one episode: a function of the run's seed, the copy's index in the run and the episode's number.
pub fn episode_seed(run_seed: u64, env_index: u64, episode: u64) -> u64 {
    // Gymnasium's seeds are numpy's: any non-negative integer. With 63 bits they also fit the i64 of other tools.
    derive(derive(run_seed, "episode", env_index), "number", episode) >> 1
}

/// A stream of random numbers (ChaCha8). Its state is two numbers: the seed and the position.
#[derive(Clone, Debug)]
pub struct Stream {
    seed: u64,
    rng: ChaCha8Rng,
}

/// The saved position of a [`Stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamState {
    /// The seed that the stream was made from.
    pub seed: u64,
    /// Number of 32-bit words drawn so far; no run draws more than 64 bits can count.
    pub word_pos: u64,
}

impl Stream {
    /// Makes the stream for a role and an index, such as that of an environment copy, from the root seed.
    pub fn new(root: u64, role: &str, index: u64) -> Self {
        let seed = derive(root, role, index);
        Self { seed, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Draws a uniformly distributed number in `[0, 1)`, with 24 random bits.
    #[inline]
    pub fn uniform(&mut self) -> f32 {
        // 24 bits: every value is exact in f32 and 1.0 cannot be reached.
        (self.rng.next_u32() >> 8) as f32 * (1.0 / (1 << 24) as f32)
    }

    /// Draws a uniformly distributed number in `[0, 1)`, with 53 random bits.
    #[inline]
    pub fn uniform_f64(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Draws a number from the standard normal distribution.
    #[inline]
    pub fn normal(&mut self) -> f32 {
        self.rng.sample(StandardNormal)
    }

    /// Draws a uniformly distributed integer in `0..n`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        self.rng.random_range(0..n)
    }

    /// Draws a random order of the numbers `0..n` (Fisher-Yates).
    pub fn permutation(&mut self, n: usize) -> Vec<i64> {
        let mut order: Vec<i64> = (0..n as i64).collect();
        for i in (1..n).rev() {
            order.swap(i, self.rng.random_range(0..=i));
        }
        order
    }

    /// The stream's position, for checkpoints.
    pub fn state(&self) -> StreamState {
        StreamState { seed: self.seed, word_pos: self.rng.get_word_pos() as u64 }
    }

    /// Makes a stream that continues from `state`.
    pub fn from_state(state: StreamState) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(state.seed);
        rng.set_word_pos(u128::from(state.word_pos));
        Self { seed: state.seed, rng }
    }
}
