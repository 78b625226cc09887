//! The random choices of a scheduler: one stream per scheduler, from its seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// In tests the draws can be those of a recorded run.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    rng: ChaCha8Rng,
    #[cfg(test)]
    pub(super) recorded: Option<std::collections::VecDeque<Value>>,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            #[cfg(test)]
            recorded: None,
        }
    }

    /// From `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        #[cfg(test)]
        if let Some(draw) = self.replay() {
            return draw.as_f64().expect("a recorded number");
        }
        self.rng.random()
    }

    /// Below `len`, which is not 0.
    pub(super) fn index(&mut self, len: usize) -> usize {
        #[cfg(test)]
        if let Some(draw) = self.replay() {
            let index = draw.as_u64().expect("a recorded index") as usize;
            assert!(index < len, "recorded index {index} of {len}");
            return index;
        }
        self.rng.random_range(0..len)
    }

    /// The value that a function makes of a uniform number.
    pub(super) fn value(&mut self, sample: &(dyn Fn(f64) -> Value + Send + Sync)) -> Value {
        #[cfg(test)]
        if let Some(draw) = self.replay() {
            return draw;
        }
        sample(self.unit())
    }

    /// An index with probability proportional to its weight; the weights are not all 0.
    pub(super) fn weighted(&mut self, weights: &[f64]) -> usize {
        #[cfg(test)]
        if let Some(draw) = self.replay() {
            return draw.as_u64().expect("a recorded index") as usize;
        }
        let mut left = self.rng.random::<f64>() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        chosen.unwrap_or(weights.len() - 1)
    }

    #[cfg(test)]
    fn replay(&mut self) -> Option<Value> {
        Some(self.recorded.as_mut()?.pop_front().expect("the recorded run drew no more"))
    }
}
