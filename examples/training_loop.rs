//! A training loop of your own: PPO in a `for` loop, in place of its plan. `train` does the same, with the same results.
//!
//! Sampling with all workers, advantages, minibatches and learning steps are methods of the trainer, so everything between
//! them can be changed. Run it with `cargo run --example training_loop`.

use pavlov::prelude::*;
use pavlov::trainer::batch::DEFAULT_POLICY;
use pavlov::trainer::prelude::*;

/// One iteration of PPO: a batch, several passes over it in minibatches, and new weights for the workers.
pub(crate) fn iteration(trainer: &mut Algorithm<Ppo>) -> Result<Metrics> {
    let Ppo { common, num_sgd_iter, sgd_minibatch_size, .. } = trainer.settings().clone();
    let batch = trainer.sample(common.train_batch_size)?;
    let batch = standardize(Column::ADVANTAGES)(batch)?;
    let mut info = LearnerInfo::default();
    'passes: for _ in 0..num_sgd_iter {
        for minibatch in trainer.minibatches(&batch, sgd_minibatch_size)? {
            info.merge(trainer.learn_on_batch(&minibatch)?);
            // Beyond `target_kl`.
            if info.stops(DEFAULT_POLICY) {
                break 'passes;
            }
        }
    }
    trainer.finish_round(&batch, info)
}

fn main() -> Result<()> {
    let mut ppo = Ppo { lr: 1e-3, num_sgd_iter: 4, sgd_minibatch_size: 256, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    ppo.common.train_batch_size = 1024;
    let mut trainer = ppo.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    for round in 1..=20 {
        let result = iteration(&mut trainer)?;
        println!(
            "{round}: {} steps, mean return {}",
            result["timesteps_total"], result["episode_reward_mean"]
        );
    }
    let action = trainer.compute_single_action(&[0.0_f32; 4], false)?;
    println!("in the middle it chooses {action:?}");
    Ok(())
}
