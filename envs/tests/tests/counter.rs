//! An environment that shows what happens to it.

use pavlov_envs::{Env, Error, Result, Space, Step, SyncVectorEnv};

/// Shows the seed and the step; ends as its actions say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    pub(crate) seed: u64,
    pub(crate) step: i64,
}

pub(crate) const GO: i64 = 0;
pub(crate) const END: i64 = 1;
pub(crate) const CUT: i64 = 2;
pub(crate) const FAIL: i64 = 3;
pub(crate) const PANIC: i64 = 4;

impl Env for Counter {
    type Obs = i64;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::multi_discrete(&[1000, 1000])
    }

    fn action_space(&self) -> Space {
        Space::discrete(5)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [i64]) -> Result<()> {
        *self = Self { seed: seed.unwrap_or(self.seed + 100), step: 0 };
        obs.copy_from_slice(&[self.seed as i64, 0]);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [i64]) -> Result<Step> {
        self.step += 1;
        match action[0] {
            FAIL => return Err(Error::other("the motor is gone")),
            PANIC => panic!("index {} out of range", self.step),
            _ => {}
        }
        obs.copy_from_slice(&[self.seed as i64, self.step]);
        Ok(Step { reward: self.step as f64, terminated: action[0] == END, truncated: action[0] == CUT })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(4)
    }
}

pub(crate) fn counters(n: usize) -> SyncVectorEnv<Counter> {
    SyncVectorEnv::new(n, || Ok(Counter::default())).unwrap()
}
