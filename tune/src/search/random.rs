//! Random streams that depend on the seed and the number of the trial, never on what was drawn before.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::domain::Domain;
use crate::{Result, rng};

/// What a stream is for; streams of different purposes never meet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// The value of a parameter.
    Draw,
    /// A closure of the search space.
    Function,
    /// The candidates of a model.
    Model,
    /// Whether the model is asked at all.
    Interleave,
}

/// The stream of trial `trial` for parameter or closure `index`: a counter-based generator at a place of its own.
pub(super) fn stream(seed: u64, trial: u64, purpose: Purpose, index: usize) -> ChaCha8Rng {
    let mut generator = rng::stream(seed, trial);
    generator.set_word_pos(((purpose as u128) << 60) | ((index as u128) << 24));
    generator
}

/// A number in `[0, 1)` for parameter `index` of trial `trial`.
pub(super) fn unit(seed: u64, trial: u64, index: usize) -> f64 {
    stream(seed, trial, Purpose::Draw, index).random()
}

/// The random numbers of a closure.
#[derive(Debug)]
pub struct Random {
    generator: ChaCha8Rng,
}

impl Random {
    pub(super) fn new(seed: u64, trial: u64, function: usize) -> Self {
        Random { generator: stream(seed, trial, Purpose::Function, function) }
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        self.generator.random()
    }

    /// 64 random bits, for a generator of one's own.
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A draw from `domain`.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) if the bounds of `domain` make no sense.
    pub fn sample(&mut self, domain: &Domain) -> Result<Value> {
        Domain::parse("the domain in a closure", &domain.clone().into())?;
        Ok(domain.at(self.unit()))
    }
}
