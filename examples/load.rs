//! Acting with a saved policy: from a checkpoint alone, and as TorchScript.
//!
//! Shows `pavlov::load`, which needs no settings, environment or workers, and `export`, whose function takes observations
//! as the environment writes them: the observation filter is inside. Run it with `cargo run --example load`.

use pavlov::envs::native::{CartPole, CartPoleConfig};
use pavlov::prelude::*;
use pavlov::torch::{CModule, Tensor};
use pavlov::trainer::settings::ObservationFilter;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    // A run to load: a few iterations with an observation filter.
    let dir = tempfile::tempdir()?;
    let mut ppo = Ppo { lr: 1e-3, num_sgd_iter: 4, sgd_minibatch_size: 256, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, num_envs_per_worker: 8, seed: Some(0), ..ppo.common };
    ppo.common.train_batch_size = 1024;
    ppo.common.observation_filter = ObservationFilter::MeanStdFilter;
    let mut trainer = ppo.builder("CartPole-v1").logdir(dir.path()).build()?;
    (0..10).try_for_each(|_| trainer.train().map(drop))?;
    trainer.save()?;
    drop(trainer);

    // Elsewhere, the run directory is enough. One episode, stepped by hand.
    let mut policy = pavlov::load(dir.path())?;
    let mut env = CartPole::new(CartPoleConfig::default());
    let mut obs = [0.0; 4];
    let mut steps = 0;
    env.reset(Some(42), &mut obs)?;
    policy.reset(0)?;
    while steps < 500 {
        let action = policy.act(&obs)?.discrete().ok_or("CartPole's actions are discrete")?;
        steps += 1;
        if env.step(&[action], &mut obs)?.terminated {
            break;
        }
    }
    println!("the loaded policy kept the pole up for {steps} steps");

    // The same as one file for Python and C++. It chooses as the policy does.
    let file = dir.path().join("policy.pt");
    policy.export(&file)?;
    let logits = CModule::load(&file)?.forward_ts(&[Tensor::from_slice(&obs).view([1, 4])])?;
    let exported = logits.argmax(1, false).int64_value(&[0]);
    let own = policy.act(&obs)?;
    println!("the exported file chooses {exported}, the policy {own:?}");
    if own.discrete() != Some(exported) {
        return Err("the two differ".into());
    }
    Ok(())
}
