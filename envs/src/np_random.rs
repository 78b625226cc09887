//! numpy's default generator, bit for bit: `SeedSequence`, PCG64 and the draws that environments use.

use std::hash::{BuildHasher, Hasher, RandomState};

use serde::{Deserialize, Serialize};

mod exponential;
mod seed_sequence;
mod ziggurat;

/// numpy's `default_rng`: equal seeds give equal draws.
///
/// ```
/// use pavlov_envs::NpRandom;
///
/// // np.random.default_rng(42).uniform(-0.05, 0.05)
/// assert_eq!(NpRandom::new(42).uniform(-0.05, 0.05).to_bits(), 0x3f9c_0d97_eba2_bd40);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NpRandom {
    state: u128,
    increment: u128,
    /// High half of a 64-bit draw whose low half was already returned.
    half: Option<u32>,
}

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

impl NpRandom {
    /// Makes the generator of `np.random.default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let [a, b, c, d] = seed_sequence::generate(seed);
        let state = u128::from(a) << 64 | u128::from(b);
        let stream = u128::from(c) << 64 | u128::from(d);
        let increment = stream << 1 | 1;
        let state = increment.wrapping_add(state).wrapping_mul(MULTIPLIER).wrapping_add(increment);
        Self { state, increment, half: None }
    }

    /// Makes a generator with a new seed from the operating system's entropy on every call, as `np.random.default_rng()`
    /// does.
    pub fn from_entropy() -> Self {
        // The keys of a `RandomState` come from the operating system, and no two of a thread are equal.
        Self::new(RandomState::new().build_hasher().finish())
    }

    /// Draws 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
        let xored = (self.state >> 64) as u64 ^ self.state as u64;
        xored.rotate_right((self.state >> 122) as u32)
    }

    /// Draws 32 uniform bits; two calls share one 64-bit draw.
    pub fn next_u32(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let bits = self.next_u64();
        self.half = Some((bits >> 32) as u32);
        bits as u32
    }

    /// Draws as `rng.random()` does: uniform in `[0, 1)`.
    #[inline]
    pub fn random(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws as `rng.uniform(low, high)` does: uniform in `[low, high)`.
    #[inline]
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }

    /// Draws as `rng.integers(low, high)` does: uniform in `low..high`, by rejection. An empty range gives `low`.
    pub fn integers(&mut self, low: i64, high: i64) -> i64 {
        let last = (high as u64).wrapping_sub(low as u64).wrapping_sub(1);
        let offset = if high <= low.saturating_add(1) {
            0
        } else if last < u64::from(u32::MAX) {
            u64::from(self.below_u32(last as u32 + 1))
        } else if last == u64::from(u32::MAX) {
            u64::from(self.next_u32())
        } else {
            self.below_u64(last + 1)
        };
        (low as u64).wrapping_add(offset) as i64
    }

    /// Draws as `rng.choice(len(p), p=p)` does: an index, with the probabilities `p`.
    ///
    /// # Panics
    /// Panics if `p` is empty.
    pub fn choice(&mut self, p: &[f64]) -> usize {
        assert!(!p.is_empty(), "a choice among nothing");
        let total: f64 = p.iter().sum();
        let draw = self.random();
        let mut sum = 0.0;
        let index = p.iter().position(|p| {
            sum += p;
            sum / total > draw
        });
        // The last quotient is exactly 1, and every draw is below 1.
        index.unwrap_or(p.len() - 1)
    }

    /// Shuffles a list as `rng.shuffle(list)` does.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let mask = u32::MAX >> (last as u32).leading_zeros();
            let other = loop {
                let draw = (self.next_u32() & mask) as usize;
                if draw <= last {
                    break draw;
                }
            };
            list.swap(last, other);
        }
    }

    /// Draws as `rng.standard_normal()` does: normal with mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        ziggurat::normal(self)
    }

    /// Draws as `rng.standard_exponential()` does: exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        exponential::exponential(self)
    }

    /// Converts the generator to 40 bytes, for a saved state.
    pub fn to_bytes(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&self.state.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.increment.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.half.unwrap_or(0).to_le_bytes());
        bytes[36] = u8::from(self.half.is_some());
        bytes
    }

    /// Restores a generator from the bytes of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8; 40]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 16];
            word.copy_from_slice(&bytes[at..at + 16]);
            u128::from_le_bytes(word)
        };
        let half = u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]);
        Self { state: word(0), increment: word(16), half: (bytes[36] != 0).then_some(half) }
    }

    /// Draws a uniform integer in `0..n` by Lemire's method; `n` must be at least 2.
    fn below_u32(&mut self, n: u32) -> u32 {
        let mut product = u64::from(self.next_u32()) * u64::from(n);
        if (product as u32) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u32) < threshold {
                product = u64::from(self.next_u32()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    fn below_u64(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }
}
