//! An environment that steps all its copies itself, as arrays: many ships that hold their place in gusts of wind.
//!
//! Shows the trait `VectorEnv`: rows are written where the caller says, an episode that ended starts anew in the same
//! step with the seed that came with the step, and what it showed last goes to `final_obs`. Worth it for environments
//! of a few nanoseconds per step; for all others `Env` is enough. Run it with `cargo run --example custom_vector_env`.

use pavlov::envs::{self, EnvCreator, NpRandom, StepOut, check_vector_env};
use pavlov::prelude::*;

/// Copies of a ship at place `x`, lost when it is further than 1 from where it should be.
struct Ships {
    spaces: (Space, Space),
    x: Vec<f32>,
    steps: Vec<u32>,
    wind: Vec<NpRandom>,
}

impl Ships {
    fn new(num_envs: usize) -> Self {
        let spaces = (Space::real(&[1]), Space::discrete(2));
        Self {
            spaces,
            x: vec![0.0; num_envs],
            steps: vec![0; num_envs],
            wind: vec![NpRandom::new(0); num_envs],
        }
    }

    fn reset_copy(&mut self, i: usize, seed: Option<u64>) -> f32 {
        if let Some(seed) = seed {
            self.wind[i] = NpRandom::new(seed);
        }
        (self.x[i], self.steps[i]) = (self.wind[i].uniform(-0.5, 0.5) as f32, 0);
        self.x[i]
    }
}

impl VectorEnv for Ships {
    type Obs = f32;
    type Act = i64;

    fn num_envs(&self) -> usize {
        self.x.len()
    }

    fn observation_space(&self) -> &Space {
        &self.spaces.0
    }

    fn action_space(&self) -> &Space {
        &self.spaces.1
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [f32]) -> envs::Result<()> {
        self.check_reset(seeds, obs)?;
        (0..self.x.len()).for_each(|i| obs[i] = self.reset_copy(i, seeds.map(|seeds| seeds[i])));
        Ok(())
    }

    fn step(&mut self, actions: &[i64], seeds: Option<&[u64]>, out: StepOut<'_, f32>) -> envs::Result<()> {
        self.check_step(actions, seeds, &out)?;
        for i in 0..self.x.len() {
            self.x[i] += 0.1 * (2 * actions[i] - 1) as f32 + 0.1 * self.wind[i].normal() as f32;
            self.steps[i] += 1;
            (out.obs[i], out.rewards[i]) = (self.x[i], 1.0);
            out.terminated[i] = self.x[i].abs() > 1.0;
            out.truncated[i] = !out.terminated[i] && self.steps[i] >= 200;
            if out.terminated[i] || out.truncated[i] {
                out.final_obs[i] = self.x[i];
                out.obs[i] = self.reset_copy(i, seeds.map(|seeds| seeds[i]));
            }
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    check_vector_env(&mut Ships::new(3))?;

    let mut ppo = Ppo { lr: 3e-3, num_sgd_iter: 5, sgd_minibatch_size: 512, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 64, seed: Some(0), ..ppo.common };
    (ppo.common.train_batch_size, ppo.common.model.fcnet_hiddens) = (6400, vec![32]);
    let mut trainer = ppo.builder(EnvCreator::vector(Ships::new)).loggers(LoggerChoice::None).build()?;
    for _ in 0..6 {
        let result = trainer.train()?;
        let mean = result["episode_len_mean"].as_f64().unwrap_or(f64::NAN);
        println!("{:>6} steps: ships stay for {mean:5.1} of 200 steps", result["timesteps_total"]);
    }
    Ok(())
}
