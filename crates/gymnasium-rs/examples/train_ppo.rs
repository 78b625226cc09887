//! PPO learns on an environment that was written for gymnasium-rs: keep a cart on a sloping track near its middle.
//!
//! Run it in this directory with `cargo run --features train --example train_ppo`; it needs libtorch, as pavlov's README tells.

use gymnasium_rs::core::{self, Info, Options, Reward};
use ndarray::{Array1, Array3, array};
use pavlov::prelude::*;
use pavlov_gymnasium_rs::FromGymnasium;

/// A cart that a hill pushes outwards; leaning left or right moves it back. Knows nothing of pavlov.
#[derive(Default)]
struct Cart {
    position: f32,
    speed: f32,
    steps: u32,
}

impl core::Env<Array1<f32>, i32> for Cart {
    fn observation_space(&self) -> core::Space {
        core::Space::Box { low: array![-2.0, -2.0], high: array![2.0, 2.0] }
    }

    fn action_space(&self) -> core::Space {
        core::Space::Discrete(2)
    }

    fn reset(&mut self, seed: Option<i32>, _options: Options) -> (Array1<f32>, Info) {
        let side = if seed.unwrap_or(0) % 2 == 0 { 1.0 } else { -1.0 };
        *self = Self { position: 0.2 * side, speed: 0.0, steps: 0 };
        (array![self.position, self.speed], Info::new())
    }

    fn step(&mut self, action: i32) -> (Array1<f32>, Reward, bool, bool, Info) {
        let push = if action == 1 { 0.06 } else { -0.06 };
        self.speed = (self.speed + push + 0.1 * self.position).clamp(-2.0, 2.0);
        self.position = (self.position + 0.5 * self.speed).clamp(-2.0, 2.0);
        self.steps += 1;
        let lost = self.position.abs() > 1.0;
        (array![self.position, self.speed], 1.0, lost, !lost && self.steps == 100, Info::new())
    }

    fn render(&self) -> Option<Array3<u8>> {
        None
    }

    fn close(&mut self) {}
}

fn main() -> Result<()> {
    let mut ppo = Ppo { lr: 1e-3, num_sgd_iter: 10, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    ppo.common.train_batch_size = 1600;
    ppo.common.model.fcnet_hiddens = vec![32, 32];
    let env = || FromGymnasium::<_, f32, i64>::new(Cart::default());
    let mut trainer = ppo.builder(env).loggers(LoggerChoice::None).build()?;
    for _ in 0..10 {
        let result = trainer.train()?;
        let mean = result["episode_reward_mean"].as_f64().unwrap_or(f64::NAN);
        println!("{:>6} steps: mean return {mean:6.1} of 100", result["timesteps_total"]);
    }
    Ok(())
}
