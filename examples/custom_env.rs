//! An environment of your own: walk to a coin that lies somewhere else in every episode.
//!
//! Shows the trait `Env`, its check, seeds, and what PPO makes of it. The best mean return of this one is -11/3:
//! the mean distance of two different fields of ten. Run it with `cargo run --example custom_env`.

use pavlov::envs::{self, NpRandom, check_env};
use pavlov::prelude::*;

/// Fields of the corridor.
const FIELDS: i64 = 10;

#[derive(Default)]
struct Coin {
    at: i64,
    coin: i64,
    random: Option<NpRandom>,
}

impl Coin {
    fn observe(&self, obs: &mut [f32]) {
        obs.copy_from_slice(&[self.at, self.coin].map(|field| field as f32 / FIELDS as f32));
    }
}

impl Env for Coin {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::boxed(0.0, 1.0, &[2])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        // A seed starts the random stream anew; without one it goes on.
        let fresh = seed.map(NpRandom::new).or(self.random.take());
        let random = self.random.insert(fresh.unwrap_or_else(NpRandom::from_entropy));
        self.at = random.integers(0, FIELDS);
        self.coin = (self.at + random.integers(1, FIELDS)) % FIELDS;
        self.observe(obs);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        self.at = (self.at + 2 * action[0] - 1).clamp(0, FIELDS - 1);
        self.observe(obs);
        Ok(Step { reward: -1.0, terminated: self.at == self.coin, truncated: false })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(50)
    }
}

fn main() -> Result<()> {
    check_env(&mut Coin::default())?;

    let mut ppo = Ppo { lr: 1e-3, num_sgd_iter: 10, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    ppo.common.train_batch_size = 1600;
    ppo.common.model.fcnet_hiddens = vec![32, 32];
    let mut trainer = ppo.builder(Coin::default).loggers(LoggerChoice::None).build()?;
    for _ in 0..10 {
        let result = trainer.train()?;
        println!("{:>6} steps: mean return {:6.1}", result["timesteps_total"], mean(&result));
    }
    Ok(())
}

fn mean(result: &Metrics) -> f64 {
    result["episode_reward_mean"].as_f64().unwrap_or(f64::NAN)
}
