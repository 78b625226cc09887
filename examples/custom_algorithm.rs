//! An algorithm of your own, whole: REINFORCE (Williams 1992) with standardised returns.
//!
//! Shows the three parts that every algorithm has, in the order of a file of `algorithms/`: settings that implement
//! `Trainer`, an execution plan, and a `Policy` that acts and learns. Saving, restoring, evaluation, workers and results
//! come with them. Run it with `cargo run --example custom_algorithm`.

use pavlov::prelude::*;
use pavlov::torch::{Tensor, no_grad};
use pavlov::trainer::WorkerSet;
use pavlov::trainer::action_dist::ActionDist;
use pavlov::trainer::batch::{Column, SampleBatch, env_major, read_f32};
use pavlov::trainer::common::BatchMode;
use pavlov::trainer::models::{FcNet, Initializer::Normc, Params, ParamsBuilder};
use pavlov::trainer::optim::{Optimizer, OptimizerConfig};
use pavlov::trainer::plan::{Plan, PlanExt, standardize, sync_weights, train_epochs};
use pavlov::trainer::policy::{
    ActInput, ActOutput, Fragment, Learned, Policy, PolicyClass, PolicySpec, Spaces, Stats,
};
use pavlov::trainer::rng::Stream;
use pavlov::trainer::state::{State, Weights};
use serde::{Deserialize, Serialize};

/// Settings; users change them by name, so this one runs with `lr = 1e-3` or `num_workers = 4` as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Reinforce {
    #[serde(flatten)]
    common: Common,
    lr: f64,
}

impl Trainer for Reinforce {
    const NAME: &'static str = "REINFORCE";

    fn get_default_config() -> Self {
        let mut common = Common { num_workers: 0, num_envs_per_worker: 8, ..Common::default() };
        (common.batch_mode, common.train_batch_size) = (BatchMode::CompleteEpisodes, 1600);
        common.model.fcnet_hiddens = vec![32];
        Self { common, lr: 1e-2 }
    }

    fn validate_config(&mut self, _: &Spaces) -> Result<()> {
        match self.common.batch_mode {
            BatchMode::CompleteEpisodes => Ok(()),
            other => Err(Error::config("batch_mode", format!("{other:?}"), "returns need complete_episodes")),
        }
    }

    fn get_default_policy_class(&self, _: &Spaces) -> Result<PolicyClass> {
        let config = self.clone();
        Ok(PolicyClass::new("ReinforcePolicy", move |spec| ReinforcePolicy::new(&config, spec)))
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        Box::new(
            workers
                .rollouts()
                .concat_batches(self.common.train_batch_size)
                .then(standardize(Column::ADVANTAGES))
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

#[derive(Debug)]
struct ReinforcePolicy {
    lr: f64,
    gamma: f32,
    dist: ActionDist,
    net: FcNet,
    params: Params,
    adam: Optimizer,
}

impl ReinforcePolicy {
    fn new(config: &Reinforce, spec: &PolicySpec) -> Result<Self> {
        let dist = ActionDist::for_space(&spec.spaces.action_space)?;
        let mut rng = Stream::new(spec.seed, "initial weights", 0);
        let mut p = ParamsBuilder::new(&mut rng);
        let (width, layers) = (spec.spaces.obs_width() as i64, config.common.model.hidden_layers());
        let net = FcNet::hidden(&mut p, "actor", width, &layers, Normc);
        let net = net.output(&mut p, "actor", dist.num_inputs() as i64, Normc, 0.01);
        let params = p.finish(spec.device);
        let adam = Optimizer::new(OptimizerConfig::adam(1e-8), params.flat());
        Ok(Self { lr: config.lr, gamma: config.common.gamma as f32, dist, net, params, adam })
    }
}

impl Policy for ReinforcePolicy {
    fn compute_actions(&mut self, input: ActInput<'_>, output: ActOutput<'_>) -> Result<()> {
        let logits = no_grad(|| self.net.forward(&self.params, input.obs));
        let mut logp = vec![0.0; input.rngs.len()];
        self.dist.sample(read_f32(&logits)?, input.rngs, input.explore, output.actions, &mut logp);
        Ok(())
    }

    fn postprocess_trajectory(&mut self, f: Fragment<'_>) -> Result<SampleBatch> {
        // The return from each step on, backwards through one whole episode.
        let mut returns = f.rewards.to_vec();
        for t in (0..returns.len() - 1).rev() {
            returns[t] += self.gamma * returns[t + 1];
        }
        Ok(SampleBatch::default()
            .with(Column::OBS, env_major(&f.obs.narrow(0, 0, f.steps as i64)))
            .with(Column::ACTIONS, env_major(f.actions))
            .with(Column::ADVANTAGES, Tensor::from_slice(&returns)))
    }

    fn learn_on_batch(&mut self, batch: &SampleBatch) -> Result<Learned> {
        let pi = self.dist.at(&self.net.forward(&self.params, batch.get(Column::OBS)?));
        let logp = pi.logp(batch.get(Column::ACTIONS)?);
        let loss = -(logp * batch.get(Column::ADVANTAGES)?).mean(None);
        let gradient = self.params.gradient(&loss);
        self.adam.step(self.params.flat_mut(), &gradient, self.lr);
        let stats = Stats { names: vec!["policy_loss"], values: loss.detach().view(1) };
        Ok(Learned { stats, td_errors: None, stop: false })
    }

    fn get_weights(&self) -> Weights {
        self.params.weights().into()
    }

    fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        self.params.set_weights(weights)
    }

    fn get_state(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("weights", self.params.weights());
        state.nest("adam", self.adam.state()?);
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        self.params.set_weights(&state.nested("weights")?)?;
        self.adam.set_state(&state.nested("adam")?)
    }

    fn forward(&self, obs: &Tensor) -> Result<Tensor> {
        Ok(self.net.forward(&self.params.frozen(), obs))
    }
}

fn main() -> Result<()> {
    let mut reinforce = Reinforce::get_default_config();
    reinforce.common.seed = Some(0);
    let mut trainer = reinforce.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    for _ in 0..60 {
        let result = trainer.train()?;
        if trainer.iteration() % 10 == 0 {
            let mean = result["episode_reward_mean"].as_f64().unwrap_or(f64::NAN);
            println!("{:>6} steps: mean return {mean:5.1}", result["timesteps_total"]);
        }
    }
    Ok(())
}
