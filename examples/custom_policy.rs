//! A policy of your own: a network, a loss and how it acts, here REINFORCE (Williams 1992), trained by PPO's plan.
//!
//! The loss is written once; small networks run on the fused engine, others on libtorch. Saving, restoring, workers,
//! evaluation and export follow from the network. Run it with `cargo run --example custom_policy`.

use pavlov::prelude::*;
use pavlov::trainer::prelude::*;

#[derive(Debug)]
struct Reinforce {
    dist: ActionDist,
    hidden: Dense,
    logits: Dense,
}

impl NetPolicy for Reinforce {
    type Config = f64; // the learning rate

    fn build(lr: &f64, net: &mut NetBuilder<'_>) -> Result<Self> {
        let dist = ActionDist::for_space(&net.spec().spaces.action_space)?;
        let inputs = net.obs_width();
        let outputs = dist.num_inputs();
        let (_, (hidden, logits)) = net.group("actor", Rule::adam(*lr, 1e-8), |net| {
            let hidden = net.dense("hidden", inputs, 32, Activation::Tanh, Init::Normc(1.0));
            Ok((hidden, net.dense("out", 32, outputs, Activation::Linear, Init::Normc(0.01))))
        })?;
        Ok(Self { dist, hidden, logits })
    }

    fn action_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.logits.on(net, self.hidden.on(net, x.obs()))
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        act.sample(&self.dist, inputs)
    }

    fn postprocess(&self, _: &mut Learner, f: &Fragment<'_>) -> Result<SampleBatch> {
        let returns = discount_cumsum(f.rewards, 0.99); // of one whole episode
        Ok(f.rows().with_f32s(Column::ADVANTAGES, &returns))
    }

    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        let pi = self.dist.at(self.action_inputs(rows.online(), rows.obs()?));
        let loss = -(pi.logp(rows.get(Column::ACTIONS)?) * rows.get(Column::ADVANTAGES)?).mean();
        Ok(Loss::sum([("policy_loss", loss)]))
    }
}

fn main() -> Result<()> {
    let mut ppo = Ppo { num_sgd_iter: 1, sgd_minibatch_size: 1600, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    ppo.common.batch_mode = BatchMode::CompleteEpisodes;
    ppo.common.train_batch_size = 1600;
    let mine = PolicyClass::net::<Reinforce>("Reinforce", &1e-2);
    let mut trainer = ppo.builder("CartPole-v1").policy_class(mine).loggers(LoggerChoice::None).build()?;
    for _ in 0..60 {
        println!("mean return {}", trainer.train()?["episode_reward_mean"]);
    }
    Ok(())
}
