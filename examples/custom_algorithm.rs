//! An algorithm of your own, whole: A2C (Mnih et al. 2016) as settings and an execution plan.
//!
//! A2C is PPO with one pass over the whole batch (Huang et al. 2022, "A2C is a special case of PPO"), so it trains PPO's
//! policy; `custom_policy.rs` shows a policy. Command, workers, sweeps, checkpoints and
//! results come with the trait. Run it with `cargo run --example custom_algorithm`.

use pavlov::prelude::*;
use pavlov::trainer::prelude::*;
use serde::{Deserialize, Serialize};

/// Settings; users change them by name, so this one runs with `lr = 1e-3` or `num_workers = 4` as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct A2c {
    #[serde(flatten)]
    common: Common,
    lr: f64,
    entropy_coeff: f64,
}

impl Trainer for A2c {
    const NAME: &'static str = "A2C";

    fn get_default_config() -> Self {
        let mut common = Common { num_workers: 0, num_envs_per_worker: 16, ..Common::default() };
        common.rollout_fragment_length = 8;
        common.train_batch_size = 128;
        common.model = ModelConfig { vf_share_layers: false, fcnet_hiddens: vec![64, 64], ..common.model };
        Self { common, lr: 1e-3, entropy_coeff: 0.01 }
    }

    fn validate_config(&mut self, _: &Spaces) -> Result<()> {
        if self.lr > 0.0 { Ok(()) } else { Err(Error::config("lr", self.lr, "it must be above 0")) }
    }

    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        let lr = self.lr;
        let entropy_coeff = self.entropy_coeff;
        let common = self.common.clone();
        let grad_clip = Some(0.5);
        Ppo { common, lr, entropy_coeff, grad_clip, kl_coeff: 0.0, lambda: 1.0, ..Ppo::default() }
            .get_default_policy_class(spaces)
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        Box::new(
            workers
                .rollouts()
                .concat_batches(self.common.train_batch_size)
                .then(train_epochs(workers, 1, 0))
                .then(sync_weights(workers)),
        )
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

fn main() -> Result<()> {
    let mut a2c = A2c::get_default_config();
    a2c.common.seed = Some(0);
    a2c.common.min_sample_timesteps_per_reporting = Some(12_800);
    let mut trainer = a2c.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    for _ in 0..10 {
        let result = trainer.train()?;
        println!("{}: {}", result["timesteps_total"], result["episode_reward_mean"]);
    }
    Ok(())
}
