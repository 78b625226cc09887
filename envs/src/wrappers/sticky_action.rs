//! The wrapper that repeats actions at random.

use super::{Wrapped, Wrapper};
use crate::{Element, Env, Error, NpRandom, Result, contract::state};

const TAG: &str = "sticky_action";

/// Repeats the last action with a given probability, for a given number of steps.
///
/// Random numbers are drawn from the wrapper's own stream, seeded with the episode's seed. Gymnasium draws them from the
/// environment's stream; both agree if the environment draws nothing.
pub type StickyAction<E> = Wrapped<E, Sticky<<E as Env>::Act>>;

/// The [`Wrapper`] that implements [`StickyAction`].
#[derive(Clone, Debug)]
pub struct Sticky<A> {
    repeat_action_probability: f64,
    /// Smallest and largest number of steps for which an action is repeated.
    repeat_action_duration: [i64; 2],
    random: NpRandom,
    /// Action that may be repeated; empty before the first action of an episode.
    last_action: Vec<A>,
    is_sticky: bool,
    num_repeats: i64,
    repeats_taken: i64,
}

impl<E: Env> Wrapped<E, Sticky<E::Act>> {
    /// Wraps `env`. The number of steps for which an action is repeated is drawn between `repeat_action_duration[0]` and
    /// `repeat_action_duration[1]`, both included.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] unless the probability is in `0..1`, and `1 <= repeat_action_duration[0] <=
    /// repeat_action_duration[1]`.
    pub fn new(env: E, repeat_action_probability: f64, repeat_action_duration: [i64; 2]) -> Result<Self> {
        Self::with(env, Sticky::new(repeat_action_probability, repeat_action_duration)?)
    }
}

impl<A: Element> Sticky<A> {
    pub(super) fn new(repeat_action_probability: f64, repeat_action_duration: [i64; 2]) -> Result<Self> {
        if !(0.0..1.0).contains(&repeat_action_probability) {
            let expected = "at least 0 and below 1";
            return Err(Error::shape("`repeat_action_probability`", repeat_action_probability, expected));
        }
        let [least, most] = repeat_action_duration;
        if least < 1 || least > most {
            let expected = "at least 1, the first not above the second";
            return Err(Error::shape(
                "`repeat_action_duration`",
                format_args!("[{least}, {most}]"),
                expected,
            ));
        }
        Ok(Self {
            repeat_action_probability,
            repeat_action_duration,
            random: NpRandom::from_entropy(),
            last_action: Vec::new(),
            is_sticky: false,
            num_repeats: 0,
            repeats_taken: 0,
        })
    }
}

impl<O: Element, A: Element> Wrapper<O, A> for Sticky<A> {
    type Obs = O;
    type Act = A;

    fn reset(&mut self, seed: Option<u64>) {
        if let Some(seed) = seed {
            self.random = NpRandom::new(seed);
        }
        self.last_action.clear();
        self.is_sticky = false;
        self.num_repeats = 0;
        self.repeats_taken = 0;
    }

    fn action(&mut self, action: &[A], inner: &mut [A]) -> Result<()> {
        let again = self.is_sticky
            || !self.last_action.is_empty() && self.random.random() < self.repeat_action_probability;
        if again {
            if self.num_repeats == 0 {
                let [least, most] = self.repeat_action_duration;
                self.num_repeats = self.random.integers(least, most + 1);
            }
            inner.copy_from_slice(&self.last_action);
            self.is_sticky = true;
            self.repeats_taken += 1;
        } else {
            inner.copy_from_slice(action);
            self.last_action.clear();
            self.last_action.extend_from_slice(action);
        }
        if self.is_sticky && self.num_repeats == self.repeats_taken {
            self.is_sticky = false;
            self.num_repeats = 0;
            self.repeats_taken = 0;
        }
        Ok(())
    }

    fn save_state(&self) -> Vec<u8> {
        let Self { random, last_action, is_sticky, num_repeats, repeats_taken, .. } = self;
        state::save(TAG, &(random, last_action, is_sticky, num_repeats, repeats_taken))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (random, last_action, is_sticky, num_repeats, repeats_taken) = state::load(TAG, state)?;
        *self = Self { random, last_action, is_sticky, num_repeats, repeats_taken, ..self.clone() };
        Ok(())
    }
}
