//! Random choices of a scheduler: one random stream per scheduler, made from its seed.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::base::rng::stream;

/// Random generator of a scheduler; in tests it can replay a recorded run.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    rng: ChaCha8Rng,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: stream(seed, 0) }
    }

    /// Draws a uniform number from `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        #[cfg(test)]
        if let Some(draw) = recorded::next() {
            return draw.as_f64().expect("a recorded number");
        }
        self.rng.random()
    }

    /// Draws a uniform index below `len`, which must not be 0.
    pub(super) fn index(&mut self, len: usize) -> usize {
        #[cfg(test)]
        if let Some(draw) = recorded::next() {
            let index = draw.as_u64().expect("a recorded index") as usize;
            assert!(index < len, "recorded index {index} of {len}");
            return index;
        }
        self.rng.random_range(0..len)
    }

    /// Draws a value by passing a uniform number from `[0, 1)` to `sample`.
    pub(super) fn value(&mut self, sample: &(dyn Fn(f64) -> Value + Send + Sync)) -> Value {
        #[cfg(test)]
        if let Some(draw) = recorded::next() {
            return draw;
        }
        sample(self.unit())
    }

    /// Draws an index with probability proportional to its weight. The weights must not all be 0.
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

/// Random draws of a recorded run, used in place of the generator's.
#[cfg(test)]
pub(super) mod recorded {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use serde_json::Value;

    thread_local! {
        static DRAWS: RefCell<Option<VecDeque<Value>>> = const { RefCell::new(None) };
    }

    /// Sets the draws for the schedulers of this thread, until [`finish`] is called.
    pub(crate) fn start(draws: Vec<Value>) {
        DRAWS.set(Some(draws.into()));
    }

    /// Ends the replay and returns the number of unused draws.
    pub(crate) fn finish() -> usize {
        DRAWS.take().map_or(0, |left| left.len())
    }

    /// Returns the next recorded draw; `None` if no replay is active.
    pub(super) fn next() -> Option<Value> {
        DRAWS.with_borrow_mut(|draws| {
            Some(draws.as_mut()?.pop_front().expect("the recorded run drew no more"))
        })
    }
}
