//! A linear model, y = 2x + 1, by stochastic gradient descent in plain arithmetic.

use std::time::Duration;

use pavlov_data::{Dataset, IterBatches, Shuffle};
use pavlov_train::{BaseTrainer, TrainContext};
use pavlov_tune::session::{self, Checkpoint};
use pavlov_tune::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Linear {
    pub(crate) lr: f64,
    pub(crate) epochs: u64,
    /// Fails before this epoch, in the first attempt.
    pub(crate) fails_at: Option<u64>,
    /// Milliseconds that each epoch takes at least.
    pub(crate) pause: u64,
}

impl Linear {
    pub(crate) fn new() -> Self {
        Linear { lr: 0.01, epochs: 10, fails_at: None, pause: 0 }
    }
}

/// Ten rows.
pub(crate) fn data() -> Dataset {
    let row = |x: i32| json!({"x": f64::from(x) / 3.0, "y": 2.0 * f64::from(x) / 3.0 + 1.0});
    Dataset::from_items((0..10).map(row)).unwrap()
}

impl BaseTrainer for Linear {
    fn training_loop(&mut self, context: &TrainContext) -> Result<()> {
        let state = context.checkpoint.as_ref().map(Checkpoint::to_dict).transpose()?;
        let (mut w, mut b, done) = state.as_ref().map_or((0.0, 0.0, 0), |state| {
            (state["w"].as_f64().unwrap(), state["b"].as_f64().unwrap(), state["epoch"].as_u64().unwrap())
        });
        for epoch in done + 1..=self.epochs {
            std::thread::sleep(Duration::from_millis(self.pause));
            let failed = session::get_trial_dir().is_some_and(|dir| dir.join("error.txt").exists());
            if self.fails_at == Some(epoch) && !failed {
                return Err(Error::other("out of luck"));
            }
            let shuffle = Some(Shuffle { seed: 1, epoch, ..Shuffle::default() });
            let options = IterBatches { batch_size: 2, shuffle, ..IterBatches::default() };
            let mut loss = 0.0;
            let mut batches = 0.0;
            for batch in context.dataset("train")?.iter_batches(options)? {
                let batch = batch?;
                let x = batch.float("x")?;
                let y = batch.float("y")?;
                let error = &x * w + b - y;
                w -= self.lr * 2.0 * (&error * &x).mean().unwrap();
                b -= self.lr * 2.0 * error.mean().unwrap();
                loss += error.mapv(|error| error * error).mean().unwrap();
                batches += 1.0;
            }
            let checkpoint = Checkpoint::from_dict(json!({"w": w, "b": b, "epoch": epoch}));
            session::report(json!({"loss": loss / batches, "epoch": epoch}), Some(checkpoint))?;
        }
        Ok(())
    }
}
