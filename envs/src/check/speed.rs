//! Measures how fast an environment steps.

use std::time::{Duration, Instant};

use crate::{
    AnyVectorEnv, MultiAgentEnv, MultiAgentRows, NpRandom, Result, Space, StepOut,
    check::inputs::{AlignedRows, Inputs, legal},
};

/// Steps, episodes and time that [`measure_speed`] counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Number of steps, all copies together.
    pub steps: u64,
    /// Number of episodes that ended in these steps.
    pub episodes: u64,
    /// Time that the steps took, in seconds.
    pub seconds: f64,
}

impl Speed {
    /// Steps per second, all copies together.
    pub fn steps_per_second(&self) -> f64 {
        self.steps as f64 / self.seconds
    }
}

/// Steps all copies with random actions for at least `time`. The actions are drawn beforehand; with action masks they are
/// legal.
///
/// # Errors
/// Returns the errors of [`VectorEnv::reset`](crate::VectorEnv::reset) and [`VectorEnv::step`](crate::VectorEnv::step).
pub fn measure_speed(env: &mut dyn AnyVectorEnv, time: Duration) -> Result<Speed> {
    let n = env.num_envs();
    let inputs = Inputs::draw(env);
    let row = n * env.observation_space().width() * env.obs_dtype().size();
    let mut obs = AlignedRows::new(row);
    let mut final_obs = AlignedRows::new(row);
    let mut rewards = vec![0.0; n];
    let mut terminated = vec![false; n];
    let mut truncated = vec![false; n];
    env.reset(Some(&inputs.seeds), obs.bytes_mut())?;
    let masked = legal(env, inputs.actions[0].bytes()).is_some();
    let mut speed = Speed { steps: 0, episodes: 0, seconds: 0.0 };
    let mut inputs = inputs.actions.iter().zip(&inputs.reset_seeds).cycle();
    let start = Instant::now();
    // The clock is read once per several steps: reading it takes as long as some steps of the fastest environments.
    let mut steps = 1;
    let mut seen = Duration::ZERO;
    // Time spent on finding legal actions, which is not the environment's.
    let mut choosing = Duration::ZERO;
    while seen < time {
        for (actions, seeds) in inputs.by_ref().take(steps) {
            let legal = masked.then(Instant::now).and_then(|before| {
                let legal = legal(env, actions.bytes());
                choosing += before.elapsed();
                legal
            });
            let actions = legal.as_ref().unwrap_or(actions).bytes();
            let out = StepOut {
                obs: obs.bytes_mut(),
                final_obs: final_obs.bytes_mut(),
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            env.step(actions, Some(seeds), out)?;
            speed.steps += n as u64;
            speed.episodes += terminated.iter().zip(&truncated).filter(|(a, b)| **a || **b).count() as u64;
        }
        let before = std::mem::replace(&mut seen, start.elapsed() - choosing);
        if seen - before < Duration::from_millis(1) {
            steps = (2 * steps).min(256);
        }
    }
    speed.seconds = seen.as_secs_f64();
    Ok(speed)
}

/// Steps a multi-agent environment with random legal actions for at least `time`. Drawing the actions is part of the time; a
/// step is one of all acting agents together.
///
/// # Errors
/// Returns the errors of [`MultiAgentEnv::reset`] and [`MultiAgentEnv::step`].
pub fn measure_multi_agent_speed<E: MultiAgentEnv>(env: &mut E, time: Duration) -> Result<Speed> {
    let spaces: Vec<_> = (0..env.agents().len()).map(|agent| env.action_space(agent)).collect();
    let mut actions = vec![E::Act::default(); spaces.iter().map(Space::width).sum()];
    let mut masks: Vec<_> = spaces.iter().map(|space| vec![false; space.flat_width()]).collect();
    let mut rows = MultiAgentRows::new(env);
    let mut random = NpRandom::new(0);
    let mut speed = Speed { steps: 0, episodes: 0, seconds: 0.0 };
    let start = Instant::now();
    env.reset(Some(0), rows.out())?;
    while start.elapsed() < time {
        if rows.is_over() {
            speed.episodes += 1;
            env.reset(Some(speed.episodes), rows.out())?;
        }
        let mut rest = &mut actions[..];
        for (agent, space) in spaces.iter().enumerate() {
            let (action, after) = rest.split_at_mut(space.width());
            rest = after;
            let mask = &mut masks[agent];
            if !env.action_mask(agent, mask) {
                mask.fill(false);
            }
            space.sample_legal(mask, &mut random, action);
        }
        env.step(&actions, rows.out())?;
        speed.steps += 1;
    }
    speed.seconds = start.elapsed().as_secs_f64();
    Ok(speed)
}
