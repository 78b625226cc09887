//! The wrapper that repeats every action and takes the maximum of the last two observations.

use super::{load, save};
use crate::{Env, Error, Result, Space, Step, contract::state};

const TAG: &str = "max_and_skip";

/// Repeats every action for `skip` steps of the inner environment, adds up the rewards, and observes the elementwise
/// maximum of the last two observations. The maximum is meant for Atari games, which draw some objects in every second
/// frame only.
///
/// If an episode ends before all `skip` steps are made, the maximum includes observations from the action before, or zeros
/// at the first action of the episode.
#[derive(Clone, Debug)]
pub struct MaxAndSkipObservation<E: Env> {
    env: E,
    skip: usize,
    row: Vec<E::Obs>,
    /// Observation after the last of the `skip` steps; `before` is the one after the last but one.
    last: Vec<E::Obs>,
    before: Vec<E::Obs>,
}

impl<E: Env> MaxAndSkipObservation<E> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if `skip` is less than 2, or if the observation space is a dict or a tuple.
    pub fn new(env: E, skip: usize) -> Result<Self> {
        if skip < 2 {
            return Err(Error::shape("`skip`", skip, "at least 2"));
        }
        let space = env.observation_space();
        if matches!(space, Space::Dict(_) | Space::Tuple(_)) {
            return Err(Error::shape(
                "the observation space",
                space,
                "a box or of integers, whose members compare",
            ));
        }
        let row = vec![E::Obs::default(); space.width()];
        Ok(Self { env, skip, last: row.clone(), before: row.clone(), row })
    }

    /// Returns the inner environment, whose steps are not skipped.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for MaxAndSkipObservation<E> {
    forward!(Obs, Act, observation_space, action_space, action_mask, set_task, no_goals, info, render);

    fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> Result<()> {
        self.last.fill(E::Obs::default());
        self.before.fill(E::Obs::default());
        self.env.reset(seed, obs)
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        let mut total = Step::default();
        for t in 1..=self.skip {
            let step = self.env.step(action, &mut self.row)?;
            total = Step { reward: total.reward + step.reward, ..step };
            if t + 1 == self.skip {
                self.before.copy_from_slice(&self.row);
            } else if t == self.skip {
                self.last.copy_from_slice(&self.row);
            }
            if step.terminated || step.truncated {
                break;
            }
        }
        for (obs, (last, before)) in obs.iter_mut().zip(self.last.iter().zip(&self.before)) {
            *obs = if last > before { *last } else { *before };
        }
        Ok(total)
    }

    /// Converts the inner environment's limit from its own steps to steps of this wrapper.
    fn max_episode_steps(&self) -> Option<usize> {
        Some(self.env.max_episode_steps()?.div_ceil(self.skip))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        save(TAG, &self.env, &(&self.last, &self.before))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let here = self.row.len();
        let (last, before) = load(TAG, &mut self.env, state, |(last, before): &(Vec<_>, Vec<_>)| {
            state::check_count("scalars of an observation", last.len(), here)?;
            state::check_count("scalars of an observation", before.len(), here)
        })?;
        self.last = last;
        self.before = before;
        Ok(())
    }
}
