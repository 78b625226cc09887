//! How fast an environment steps.

use std::time::{Duration, Instant};

use crate::{
    AnyVectorEnv, Result, StepOut,
    check::inputs::{Inputs, Rows},
};

/// What [`measure_speed`] counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Steps of all copies together.
    pub steps: u64,
    /// Episodes that ended in them.
    pub episodes: u64,
    /// How long they took.
    pub seconds: f64,
}

impl Speed {
    /// Steps of all copies together in a second.
    pub fn steps_per_second(&self) -> f64 {
        self.steps as f64 / self.seconds
    }
}

/// Steps all copies by random actions, drawn beforehand, for at least `time`.
///
/// # Errors
/// Those of [`VectorEnv::reset`](crate::VectorEnv::reset) and [`VectorEnv::step`](crate::VectorEnv::step).
pub fn measure_speed(env: &mut dyn AnyVectorEnv, time: Duration) -> Result<Speed> {
    let n = env.num_envs();
    let inputs = Inputs::draw(env);
    let row = n * env.observation_space().width() * env.obs_dtype().size();
    let (mut obs, mut final_obs) = (Rows::new(row), Rows::new(row));
    let (mut rewards, mut terminated, mut truncated) = (vec![0.0; n], vec![false; n], vec![false; n]);
    env.reset(Some(&inputs.seeds), obs.bytes_mut())?;
    let mut speed = Speed { steps: 0, episodes: 0, seconds: 0.0 };
    let start = Instant::now();
    while start.elapsed() < time {
        // Reading the clock takes as long as some steps.
        for (actions, seeds) in inputs.actions.iter().zip(&inputs.reset_seeds) {
            let out = StepOut {
                obs: obs.bytes_mut(),
                final_obs: final_obs.bytes_mut(),
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            env.step(actions.bytes(), Some(seeds), out)?;
            speed.steps += n as u64;
            speed.episodes += terminated.iter().zip(&truncated).filter(|(a, b)| **a || **b).count() as u64;
        }
    }
    speed.seconds = start.elapsed().as_secs_f64();
    Ok(speed)
}
