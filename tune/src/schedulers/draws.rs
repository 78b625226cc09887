//! The random choices of a scheduler: one stream per scheduler, from its seed.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::rng::stream;

#[derive(Clone, Debug)]
pub(super) struct Draws {
    rng: ChaCha8Rng,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: stream(seed, 0) }
    }

    /// From `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        #[cfg(test)]
        if let Some(draw) = recorded::next() {
            return draw.as_f64().expect("a recorded number");
        }
        self.rng.random()
    }

    /// Below `len`, which is not 0.
    pub(super) fn index(&mut self, len: usize) -> usize {
        #[cfg(test)]
        if let Some(draw) = recorded::next() {
            let index = draw.as_u64().expect("a recorded index") as usize;
            assert!(index < len, "recorded index {index} of {len}");
            return index;
        }
        self.rng.random_range(0..len)
    }

    /// The value that a function makes of a uniform number.
    pub(super) fn value(&mut self, sample: &(dyn Fn(f64) -> Value + Send + Sync)) -> Value {
        #[cfg(test)]
        if let Some(draw) = recorded::next() {
            return draw;
        }
        sample(self.unit())
    }

    /// An index with probability proportional to its weight; the weights are not all 0.
    pub(super) fn weighted(&mut self, weights: &[f64]) -> usize {
        #[cfg(test)]
        if let Some(draw) = recorded::next() {
            return draw.as_u64().expect("a recorded index") as usize;
        }
        let mut left = self.rng.random::<f64>() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        chosen.unwrap_or(weights.len() - 1)
    }
}

/// The draws of a recorded run, which stand in for those of the generator.
#[cfg(test)]
pub(super) mod recorded {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use serde_json::Value;

    thread_local! {
        static DRAWS: RefCell<Option<VecDeque<Value>>> = const { RefCell::new(None) };
    }

    /// For the schedulers of this thread, until [`finish`].
    pub(crate) fn start(draws: Vec<Value>) {
        DRAWS.set(Some(draws.into()));
    }

    /// How many were not used.
    pub(crate) fn finish() -> usize {
        DRAWS.take().map_or(0, |left| left.len())
    }

    pub(super) fn next() -> Option<Value> {
        DRAWS.with_borrow_mut(|draws| {
            Some(draws.as_mut()?.pop_front().expect("the recorded run drew no more"))
        })
    }
}
