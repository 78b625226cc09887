//! A policy of your own: a network, a loss and how it acts, here REINFORCE (Williams 1992), trained by PPO's plan.
//!
//! The loss is written once; small networks run on the fused engine, others on libtorch. Saving, restoring, workers and
//! evaluation come with the `learner`. Run it with `cargo run --example custom_policy`.

use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::prelude::*;

#[derive(Debug)]
struct Reinforce {
    dist: ActionDist,
    logits: Node,
    learner: Learner,
}

impl Reinforce {
    fn new(spec: &PolicySpec) -> Result<Self> {
        let dist = ActionDist::for_space(&spec.spaces.action_space)?;
        let mut rng = Stream::new(spec.seed, "initial weights", 0);
        let mut net = NetBuilder::new(spec.spaces.obs_width(), &mut rng);
        let hidden = net.tower("actor", net.obs(), &[(32, Activation::Tanh)], Initializer::Normc);
        let logits = net.layer("out", hidden, dist.num_inputs(), Activation::Linear, Init::Normc(0.01));
        Ok(Self { dist, logits, learner: net.learner(spec.device, OptimizerConfig::adam(1e-8), true) })
    }
}

impl Policy for Reinforce {
    fn compute_actions(&mut self, seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        let logits = self.logits;
        let inputs = self.learner.evaluate(seen.obs, self.dist.num_inputs(), |net| net.get(logits))?;
        act.sample(&self.dist, inputs)
    }

    fn postprocess_trajectory(&mut self, f: Fragment<'_>) -> Result<SampleBatch> {
        let returns = discount_cumsum(f.rewards, 0.99); // of one whole episode
        Ok(f.rows().with(Column::ADVANTAGES, Tensor::from_slice(&returns)))
    }

    fn learn_on_batch(&mut self, batch: &SampleBatch) -> Result<Learned> {
        let (dist, logits) = (&self.dist, self.logits);
        let report = self.learner.gradient(batch, |rows| {
            let pi = dist.at(&rows.net(Column::OBS)?.get(logits));
            let total = -(pi.logp(&rows.get(Column::ACTIONS)?) * rows.get(Column::ADVANTAGES)?).mean();
            Ok(Loss { stats: vec![("policy_loss", total.clone())], total, td_errors: None })
        })?;
        self.learner.step(1e-2);
        Ok(report.into())
    }

    fn learner(&self) -> Option<&Learner> {
        Some(&self.learner)
    }

    fn learner_mut(&mut self) -> Option<&mut Learner> {
        Some(&mut self.learner)
    }
}

fn main() -> Result<()> {
    let mut ppo = Ppo { num_sgd_iter: 1, sgd_minibatch_size: 1600, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    (ppo.common.batch_mode, ppo.common.train_batch_size) = (BatchMode::CompleteEpisodes, 1600);
    let mine = PolicyClass::new("Reinforce", Reinforce::new);
    let mut trainer = ppo.builder("CartPole-v1").policy_class(mine).loggers(LoggerChoice::None).build()?;
    for _ in 0..60 {
        println!("mean return {}", trainer.train()?["episode_reward_mean"]);
    }
    Ok(())
}
