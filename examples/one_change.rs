//! PPO with one thing changed: a term more in its loss, which keeps logits small.
//!
//! `Over` replaces single methods of a policy (its loss, its rule of action, its postprocessing); everything else stays
//! PPO's. With the coefficient 0 it trains as PPO does, bit for bit. Run it with `cargo run --example one_change`.

use pavlov::algorithms::PpoPolicy;
use pavlov::prelude::*;
use pavlov::trainer::prelude::*;

/// The loss of PPO, and the mean of the squared logits times a coefficient.
#[derive(Clone, Debug)]
pub(crate) struct SmallLogits(pub(crate) f64);

impl Over<PpoPolicy> for SmallLogits {
    fn loss<'t>(&self, ppo: &PpoPolicy, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let logits = ppo.action_inputs(rows.online(), rows.obs()?);
        Ok(ppo.loss(rows)?.plus("small_logits", logits.square().mean() * self.0))
    }
}

fn main() -> Result<()> {
    let mut ppo = Ppo { lr: 1e-3, num_sgd_iter: 4, sgd_minibatch_size: 256, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    ppo.common.train_batch_size = 1024;
    let class = PolicyClass::over("SmallLogits", &ppo, SmallLogits(0.01));
    let mut trainer = ppo.builder("CartPole-v1").policy_class(class).loggers(LoggerChoice::None).build()?;
    for _ in 0..20 {
        let result = trainer.train()?;
        let stats = &result["info"]["learner"]["default_policy"]["learner_stats"];
        println!("mean return {}, the term is {}", result["episode_reward_mean"], stats["small_logits"]);
    }
    Ok(())
}
