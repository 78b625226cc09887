//! One sweep for everything that trains: ASHA over a `BaseTrainer` of one's own, and the same over PPO.
//!
//! Shows `as_trainable` of both, with settings drawn over their own. Run it with
//! `cargo run --example base_trainer_asha`.

use pavlov::data::{Dataset, IterBatches};
use pavlov::prelude::{Common, Ppo, Trainer, TrainerExt};
use pavlov::train::{BaseTrainer, TrainContext};
use pavlov::tune::schedulers::{AsyncHyperBandConfig, AsyncHyperBandScheduler};
use pavlov::tune::search::loguniform;
use pavlov::tune::session::{self, Checkpoint};
use pavlov::tune::{Result, Tuner};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// y = w x by gradient descent.
#[derive(Serialize, Deserialize)]
struct Slope {
    lr: f64,
}

impl BaseTrainer for Slope {
    fn training_loop(&mut self, context: &TrainContext) -> Result<()> {
        let state = context.checkpoint.as_ref().map(Checkpoint::to_dict).transpose()?;
        let mut w = state.and_then(|state| state["w"].as_f64()).unwrap_or(0.0);
        loop {
            let mut loss = 0.0;
            for batch in context.dataset("train")?.iter_batches(IterBatches::default())? {
                let batch = batch?;
                let x = batch.float("x")?;
                let y = batch.float("y")?;
                let error = &x * w - y;
                loss += (&error * &error).sum();
                w -= self.lr * (&error * &x).sum();
            }
            session::report(json!({"loss": loss}), Some(Checkpoint::from_dict(json!({"w": w}))))?;
        }
    }
}

fn asha(tuner: Tuner, max_t: f64) -> Result<()> {
    let home = tempfile::tempdir().map_err(pavlov::tune::Error::other)?;
    let config = AsyncHyperBandConfig { grace_period: 2.0, max_t, ..AsyncHyperBandConfig::default() };
    let results = tuner
        .space(json!({"lr": loguniform(1e-4, 1e-2)}))
        .samples(6)
        .seed(3)
        .scheduler(AsyncHyperBandScheduler::new(config)?)
        .storage_path(home.path())
        .fit()?;
    println!("{results}\nbest: {}\n", results.best()?.experiment_tag);
    Ok(())
}

fn main() -> Result<()> {
    let train = Dataset::from_items((0..10).map(|i| json!({"x": i, "y": 3 * i})))?;
    let slope = Slope { lr: 0.1 }.training().datasets([("train", train)]);
    asha(Tuner::new(slope.as_trainable()?).minimize("loss"), 16.0)?;

    let mut ppo = Ppo { num_sgd_iter: 2, sgd_minibatch_size: 128, ..Ppo::get_default_config() };
    ppo.common = Common { num_workers: 0, train_batch_size: 512, seed: Some(0), ..ppo.common };
    asha(Tuner::new(ppo.as_trainable("CartPole-v1")).maximize("episode_reward_mean"), 8.0)
}
