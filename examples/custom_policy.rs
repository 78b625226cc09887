//! A policy of your own: a rule for the pole on the cart, written by hand, and how long PPO takes to match it.
//!
//! Shows the trait `Policy` at its smallest. Whatever decides (a rule, a table, a planner) gets the evaluation, the
//! workers and the results of any other policy. For one that learns see `custom_algorithm.rs`. Run it with
//! `cargo run --example custom_policy`.

use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::action_dist::ActionRows;
use pavlov::trainer::batch::{Column, SampleBatch, env_major, read_f32};
use pavlov::trainer::plan::{Plan, PlanExt};
use pavlov::trainer::policy::{ActInput, ActOutput, Fragment, Learned, Policy, PolicyClass, Spaces, Stats};
use pavlov::trainer::state::{State, Weights};
use pavlov::trainer::{LearnerInfo, WorkerSet};
use serde::{Deserialize, Serialize};

/// Push to the side to which the pole falls: the sign of its angle and a share of its angular velocity.
#[derive(Debug)]
struct FallingSide(f32);

impl Policy for FallingSide {
    fn compute_actions(&mut self, input: ActInput<'_>, output: ActOutput<'_>) -> Result<()> {
        if let ActionRows::Int(actions) = output.actions {
            let obs = read_f32(input.obs)?.chunks_exact(4);
            actions.iter_mut().zip(obs).for_each(|(a, obs)| *a = i64::from(obs[2] + self.0 * obs[3] > 0.0));
        }
        Ok(())
    }

    fn postprocess_trajectory(&mut self, f: Fragment<'_>) -> Result<SampleBatch> {
        Ok(SampleBatch::default().with(Column::ACTIONS, env_major(f.actions)))
    }

    fn learn_on_batch(&mut self, _: &SampleBatch) -> Result<Learned> {
        let stats = Stats { names: vec!["share"], values: Tensor::from_slice(&[self.0]) };
        Ok(Learned { stats, td_errors: None, stop: true })
    }

    fn get_weights(&self) -> Weights {
        Weights::default()
    }

    fn set_weights(&mut self, _: &Weights) -> Result<()> {
        Ok(())
    }

    fn get_state(&self) -> Result<State> {
        Ok(State::default())
    }

    fn set_state(&mut self, _: &State) -> Result<()> {
        Ok(())
    }

    fn forward(&self, obs: &Tensor) -> Result<Tensor> {
        Ok(obs.select(1, 2) + obs.select(1, 3) * f64::from(self.0))
    }
}

/// The trainer that goes with it: it samples and learns nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rule {
    #[serde(flatten)]
    common: Common,
    share: f32,
}

impl Trainer for Rule {
    const NAME: &'static str = "RULE";

    fn get_default_config() -> Self {
        Self { common: Common { num_workers: 0, ..Common::default() }, share: 0.3 }
    }

    fn get_default_policy_class(&self, _: &Spaces) -> Result<PolicyClass> {
        let share = self.share;
        Ok(PolicyClass::new("FallingSide", move |_| Ok(FallingSide(share))))
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        Box::new(workers.rollouts().then(|_| Ok(LearnerInfo::default())))
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// Mean return of ten greedy episodes.
fn score<T: Trainer>(algorithm: &mut Algorithm<T>) -> Result<f64> {
    let played = algorithm.play(10, 0, false, 0)?.episodes;
    Ok(played.iter().map(|episode| episode.total_reward).sum::<f64>() / played.len() as f64)
}

fn main() -> Result<()> {
    let mut rule = Rule::get_default_config().build("CartPole-v1")?;
    let to_match = score(&mut rule)?;
    println!("the rule: {to_match:.1}");

    let mut ppo = Ppo { lr: 1e-3, num_sgd_iter: 4, sgd_minibatch_size: 256, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    ppo.common.train_batch_size = 1024;
    let mut trainer = ppo.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    for iteration in 1..=60 {
        let steps = trainer.train()?["timesteps_total"].clone();
        if iteration % 5 == 0 {
            let mean = score(&mut trainer)?;
            println!("PPO after {steps} steps: {mean:.1}");
            if mean >= to_match {
                break;
            }
        }
    }
    Ok(())
}
