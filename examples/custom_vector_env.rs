//! An environment that steps all its copies itself, as arrays: many ships that hold their place in gusts of wind.
//!
//! Shows the trait `VectorEnv`: rows are written where the caller says, an episode that ended starts anew in the same
//! step with the seed that came with the step, and what it showed last goes to `final_obs`. Worth it for environments
//! of a few nanoseconds per step; for all others `Env` is enough. Run it with `cargo run --example custom_vector_env`.

use pavlov::envs::{self, EnvCreator, NpRandom, StepOut, check_vector_env};
use pavlov::prelude::*;

/// Ships, lost further than 1 from where they should be: place, steps so far and wind of each copy.
struct Ships {
    spaces: (Space, Space),
    copies: Vec<(f32, u32, NpRandom)>,
}

impl Ships {
    fn new(num_envs: usize) -> Self {
        let copies = (0..num_envs).map(|_| (0.0, 0, NpRandom::from_entropy())).collect();
        Self { spaces: (Space::real(&[1]), Space::discrete(2)), copies }
    }

    fn reset_copy(&mut self, i: usize, seed: Option<u64>) -> f32 {
        let mut wind = seed.map_or_else(|| self.copies[i].2.clone(), NpRandom::new);
        self.copies[i] = (wind.uniform(-0.5, 0.5) as f32, 0, wind);
        self.copies[i].0
    }
}

impl VectorEnv for Ships {
    type Obs = f32;
    type Act = i64;

    fn num_envs(&self) -> usize {
        self.copies.len()
    }

    fn observation_space(&self) -> &Space {
        &self.spaces.0
    }

    fn action_space(&self) -> &Space {
        &self.spaces.1
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [f32]) -> envs::Result<()> {
        self.check_reset(seeds, obs)?;
        (0..self.copies.len()).for_each(|i| obs[i] = self.reset_copy(i, seeds.map(|seeds| seeds[i])));
        Ok(())
    }

    fn step(&mut self, actions: &[i64], seeds: Option<&[u64]>, out: StepOut<'_, f32>) -> envs::Result<()> {
        self.check_step(actions, seeds, &out)?;
        for i in 0..self.copies.len() {
            let (x, steps, wind) = &mut self.copies[i];
            let push = (2 * actions[i] - 1) as f64 + wind.normal();
            *x += 0.1 * push as f32;
            *steps += 1;
            out.obs[i] = *x;
            out.rewards[i] = 1.0;
            out.terminated[i] = x.abs() > 1.0;
            out.truncated[i] = *steps >= 200;
            if out.terminated[i] || out.truncated[i] {
                out.final_obs[i] = *x;
                out.obs[i] = self.reset_copy(i, seeds.map(|seeds| seeds[i]));
            }
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    check_vector_env(&mut Ships::new(3))?;

    let mut ppo = Ppo { lr: 3e-3, num_sgd_iter: 5, sgd_minibatch_size: 512, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 64, train_batch_size: 12_800, ..ppo.common };
    let mut trainer = ppo.builder(EnvCreator::vector(Ships::new)).loggers(LoggerChoice::None).build()?;
    for _ in 0..6 {
        println!("ships stay for {} of 200 steps", trainer.train()?["episode_len_mean"]);
    }
    Ok(())
}
