//! Stop and go on: a run that was saved and restored continues bit for bit as one that never stopped.
//!
//! Shows `save` and `resume`; the first trainer may be long gone, in another process, when the second one finds its
//! checkpoint. Run it with `cargo run --example resume`.

use pavlov::prelude::*;
use std::path::Path;

fn trainer(logdir: &Path) -> Result<Driver<Algorithm<Ppo>>> {
    let mut ppo = Ppo { num_sgd_iter: 4, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 2, seed: Some(7), ..ppo.common };
    ppo.common.train_batch_size = 1000;
    ppo.builder("CartPole-v1").logdir(logdir).resume(Resume::IfThere).build()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut straight = trainer(&dir.path().join("straight"))?;
    let mut first = trainer(&dir.path().join("interrupted"))?;
    for _ in 0..2 {
        straight.train()?;
        first.train()?;
    }
    first.save()?;
    first.stop()?;
    drop(first);

    let mut second = trainer(&dir.path().join("interrupted"))?;
    println!("restored at iteration {}", second.training_iteration());
    for _ in 0..2 {
        let a = straight.train()?;
        let b = second.train()?;
        for key in ["training_iteration", "timesteps_total", "episode_reward_mean"] {
            println!("{key}: {} without a stop, {} with one", a[key], b[key]);
        }
    }
    let equal = straight.get_weights()? == second.get_weights()?;
    println!("weights equal bit for bit: {equal}");
    if equal { Ok(()) } else { Err("the runs differ".into()) }
}
