//! Two policies in one environment: the first agent learns by PPO for itself, all others share a second PPO.
//!
//! `cargo run --release --example two_policies`

use pavlov::prelude::*;
use pavlov::trainer::plan::Plan;
use pavlov::trainer::policy::{Agent, Policies, PolicyClass, Spaces};
use pavlov::trainer::{Result, WorkerSet};
use serde::{Deserialize, Serialize};

/// PPO's settings, for both policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct TwoPolicies(Ppo);

impl Trainer for TwoPolicies {
    const NAME: &'static str = "TwoPolicies";

    fn get_default_config() -> Self {
        Self(Ppo::get_default_config())
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        self.0.validate_config(spaces)
    }

    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        self.0.get_default_policy_class(spaces)
    }

    /// The only method that single-agent algorithms do not have.
    fn policies(&self, agents: &[Agent]) -> Result<Policies> {
        let class = self.get_default_policy_class(&agents[0].spaces)?;
        let policies = [("first", class.clone()), ("others", class)];
        Ok(Policies::new(policies, |agent| if agent == "agent_0" { "first" } else { "others" }))
    }

    /// Steps of a plan treat all policies alike, so it is PPO's own.
    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        self.0.execution_plan(workers)
    }

    fn common(&self) -> &Common {
        &self.0.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.0.common
    }
}

fn main() -> pavlov::Result<()> {
    let mut settings = TwoPolicies::get_default_config();
    let Ppo { common, lr, sgd_minibatch_size, num_sgd_iter, .. } = &mut settings.0;
    (*lr, *sgd_minibatch_size, *num_sgd_iter) = (1e-3, 250, 10);
    (common.num_workers, common.num_envs_per_worker) = (0, 10);
    (common.rollout_fragment_length, common.train_batch_size) = (25, 1000);
    common.model.fcnet_hiddens = vec![64, 64];
    common.gamma = 0.95;

    let mut trainer = settings.build("simple_spread_v3")?;
    for _ in 0..100 {
        let result = trainer.train()?;
        println!(
            "{:>8} steps: an episode brings {:.1}, {} by policy",
            result["timesteps_total"],
            result["episode_reward_mean"].as_f64().unwrap_or(f64::NAN),
            result["policy_reward_mean"]
        );
    }
    Ok(())
}
