//! What is a policy worth? Evaluation on a schedule, whole greedy episodes on demand, and acting by hand.
//!
//! Shows `evaluation_interval`, `restore_policies` (weights alone, without the rest of a run), `play` and
//! `compute_single_action`. Run it with `cargo run --example evaluate`.

use pavlov::envs::native::{CartPole, CartPoleConfig};
use pavlov::prelude::*;
use pavlov::trainer::settings::EvaluationDuration;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut ppo = Ppo { lr: 1e-3, num_sgd_iter: 4, sgd_minibatch_size: 256, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    ppo.common.train_batch_size = 1024;
    ppo.common.evaluation_interval = Some(5);
    ppo.common.evaluation_duration = EvaluationDuration::Units(10);

    // On a schedule: results of every fifth iteration carry a block `evaluation`.
    let mut trainer = ppo.clone().builder("CartPole-v1").logdir(dir.path()).build()?;
    for _ in 0..15 {
        let result = trainer.train()?;
        if let Some(evaluation) = result.get("evaluation") {
            let mean = &evaluation["episode_reward_mean"];
            println!(
                "after {} steps ten greedy episodes return {mean} on average",
                result["timesteps_total"]
            );
        }
    }
    let checkpoint = trainer.save()?;

    // On demand: another trainer takes the policy out of the checkpoint and plays. Equal seeds play equal episodes.
    let mut actor = ppo.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    actor.restore_policies(&checkpoint)?;
    let returns: Vec<f64> = actor.play(5, 1, false, 0)?.episodes.iter().map(|e| e.total_reward).collect();
    println!("five more, played from the checkpoint: {returns:?}");

    // By hand: one action at a time, in an environment that is yours to step.
    let mut env = CartPole::new(CartPoleConfig::default());
    let mut obs = [0.0; 4];
    let mut steps = 0;
    env.reset(Some(42), &mut obs)?;
    while steps < 500 {
        let action =
            actor.compute_single_action(&obs, false)?.discrete().ok_or("CartPole's actions are discrete")?;
        steps += 1;
        if env.step(&[action], &mut obs)?.terminated {
            break;
        }
    }
    println!("one more, stepped by hand: {steps} steps");
    Ok(())
}
