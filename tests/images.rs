//! Images: bytes from the environment to the network, convolutions by settings and of a user's own.

use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::batch::Column;
use pavlov::trainer::policy::DEFAULT_POLICY;
use pavlov::trainer::prelude::{
    Activation, Conv2d, ConvFilters, CustomModel, Filter, Input, Net, NetBuilder, Padding, Torso, Value,
};
use serde_json::json;

use crate::support::{quiet, tiny_dqn, tiny_ppo, worker_set};

#[path = "../examples/support/catch.rs"]
mod catch;
use catch::Catch;

/// PPO that learns to catch in some seconds.
fn ppo() -> Ppo {
    let mut ppo = tiny_ppo();
    (ppo.lr, ppo.num_sgd_iter, ppo.sgd_minibatch_size) = (2e-3, 4, 256);
    ppo.common.num_workers = 0;
    ppo.common.num_envs_per_worker = 32;
    (ppo.common.rollout_fragment_length, ppo.common.train_batch_size) = (32, 1024);
    ppo
}

/// Trains for so many steps; the mean of 200 greedy episodes.
fn learned(trainer: &mut Driver<Algorithm<Ppo>>, steps: u64) -> f64 {
    for _ in 0..steps / 1024 {
        trainer.train().expect("a result");
    }
    let played = trainer.play(200, 1, false, 0).expect("an evaluation");
    played.episodes.iter().map(|episode| episode.total_reward).sum::<f64>() / 200.0
}

/// Mark 0.8 after 30,720 steps; random play is at about -0.8, perfect play at 1.
#[test]
fn ppo_learns_to_catch_from_pictures() {
    for seed in [0, 1, 2] {
        let mut ppo = ppo();
        ppo.common.seed = Some(seed);
        let mut trainer = quiet(ppo, Catch::new).expect("a trainer");
        let before = learned(&mut trainer, 0);
        assert!(before < 0.0, "seed {seed}: {before}");
        let after = learned(&mut trainer, 30_720);
        assert!(after >= 0.8, "seed {seed}: {after}");
    }
}
