//! A training loop of one's own: a linear model learns y = x from a dataset, in tensors.
//!
//! Shows `BaseTrainer` with a model made in `setup`, `iter_torch_batches`, checkpoints of files with metadata, and the
//! result with its loss curve. Run it with `cargo run --example base_trainer`.

use pavlov::DatasetExt;
use pavlov::data::{Dataset, IterBatches};
use pavlov::torch::nn::{self, Module, OptimizerConfig};
use pavlov::torch::{Device, Kind, Reduction, manual_seed};
use pavlov::train::{BaseTrainer, TrainContext};
use pavlov::tune::session::{self, Checkpoint};
use pavlov::tune::{Config, Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Serialize, Deserialize)]
struct Linear {
    lr: f64,
    epochs: u64,
    #[serde(skip)]
    model: Option<(nn::VarStore, nn::Linear)>,
}

impl BaseTrainer for Linear {
    fn setup(&mut self, context: &TrainContext) -> Result<()> {
        manual_seed(0);
        let mut weights = nn::VarStore::new(Device::Cpu);
        let model = nn::linear(weights.root(), 1, 1, nn::LinearConfig::default());
        if let Some(dir) = context.checkpoint.as_ref().and_then(Checkpoint::as_directory) {
            weights.load(dir.join("model.safetensors")).map_err(Error::other)?;
        }
        self.model = Some((weights, model));
        Ok(())
    }

    fn training_loop(&mut self, context: &TrainContext) -> Result<()> {
        let (weights, model) = self.model.as_ref().ok_or_else(|| Error::other("call `setup` first"))?;
        let mut optimizer = nn::Sgd::default().build(weights, self.lr).map_err(Error::other)?;
        let saved = context.checkpoint.as_ref().map(Checkpoint::get_metadata).transpose()?;
        let done = saved.and_then(|metadata| metadata.get("epoch")?.as_u64()).unwrap_or(0);
        for epoch in done + 1..=self.epochs {
            let mut loss = 0.0;
            let mut batches = 0.0;
            let options = IterBatches { batch_size: 2, ..IterBatches::default() };
            for batch in context.dataset("train")?.iter_torch_batches(options, Kind::Float, Device::Cpu)? {
                let batch = batch?;
                let x = batch["x"].unsqueeze(1);
                let y = batch["y"].unsqueeze(1);
                let batch_loss = model.forward(&x).mse_loss(&y, Reduction::Mean);
                optimizer.backward_step(&batch_loss);
                loss += batch_loss.double_value(&[]);
                batches += 1.0;
            }
            let dir = tempfile::tempdir().map_err(Error::other)?;
            weights.save(dir.path().join("model.safetensors")).map_err(Error::other)?;
            let epoch_of = Config::from_iter([("epoch".to_string(), epoch.into())]);
            let checkpoint = Checkpoint::from_directory(dir.path()).with_metadata(epoch_of);
            session::report(json!({"loss": loss / batches, "epoch": epoch}), Some(checkpoint))?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let train = Dataset::from_items((0..10).map(|i| json!({"x": i, "y": i})))?;
    let result =
        Linear { lr: 0.005, epochs: 10, model: None }.training().datasets([("train", train)]).fit()?;
    for row in result.history()? {
        println!("epoch {}: loss {:.6}", row["epoch"], row["loss"].as_f64().unwrap_or(f64::NAN));
    }
    println!("the curve: tensorboard --logdir {}", result.path.display());
    let experiment = result.path.parent().unwrap_or(&result.path);
    println!("to go on after a kill or a failure: Linear::restore({experiment:?})");
    Ok(())
}
