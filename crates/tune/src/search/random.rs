//! Random streams that depend on the seed and the number of the trial, never on earlier draws.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::domain::Domain;
use crate::base::{Result, rng};

/// Purpose of a random stream; streams with different purposes never overlap.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// Draws the value of a parameter.
    Draw,
    /// Supplies the random numbers of a closure in the search space.
    Function,
    /// Draws the candidates of a model.
    Model,
    /// Decides whether a trial is drawn from the model or at random.
    Interleave,
}

/// Returns the random stream of one parameter or closure (`index`) in one trial. The generator is counter-based, and each
/// stream starts at its own position.
pub(super) fn stream(seed: u64, trial: u64, purpose: Purpose, index: usize) -> ChaCha8Rng {
    let mut generator = rng::stream(seed, trial);
    generator.set_word_pos(((purpose as u128) << 60) | ((index as u128) << 24));
    generator
}

/// Draws a uniform number in `[0, 1)` for parameter `index` of trial `trial`.
pub(super) fn unit(seed: u64, trial: u64, index: usize) -> f64 {
    stream(seed, trial, Purpose::Draw, index).random()
}

/// Random numbers for a closure of the search space.
#[derive(Debug)]
pub struct Random {
    generator: ChaCha8Rng,
}

impl Random {
    pub(super) fn new(seed: u64, trial: u64, function: usize) -> Self {
        Random { generator: stream(seed, trial, Purpose::Function, function) }
    }

    /// Draws a uniform number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        self.generator.random()
    }

    /// Draws 64 random bits, for example to seed another generator.
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Draws a value from `domain`.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) if the bounds of `domain` are invalid.
    pub fn sample(&mut self, domain: &Domain) -> Result<Value> {
        Domain::parse("the domain in a closure", &domain.clone().into())?;
        Ok(domain.at(self.unit()))
    }
}
