//! One network trained by two workers, each a process with half of the rows: gradients are averaged at every step, so that
//! all have the same weights. Run it with `cargo run --example torch_trainer`.

use pavlov::prelude::*;
use pavlov::torch::nn::{self, Module, OptimizerConfig};
use pavlov::torch::{Device, Kind, Reduction, Tensor};
use pavlov::train::{BaseTrainer, ReduceOp, ScalingConfig};
use pavlov::tune::session::{self, Checkpoint};
use pavlov::tune::{Error, Result, child_main};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Serialize, Deserialize)]
struct Sine {
    lr: f64,
    epochs: usize,
    batch_size_per_worker: usize,
}

impl TrainLoop for Sine {
    fn train_loop_per_worker(&mut self, worker: &WorkerContext) -> Result<()> {
        let model = nn::VarStore::new(Device::Cpu);
        let net = nn::seq()
            .add(nn::linear(model.root(), 1, 32, Default::default()))
            .add_fn(Tensor::tanh)
            .add(nn::linear(model.root(), 32, 1, Default::default()));
        let mut adam = nn::Adam::default().build(&model, self.lr).map_err(Error::other)?;
        worker.prepare_model(&model)?;
        let train = worker.get_dataset_shard("train")?;
        for _ in 0..self.epochs {
            let options = IterBatches { batch_size: self.batch_size_per_worker, ..IterBatches::default() };
            let mut losses = vec![];
            for batch in train.iter_torch_batches(options, Kind::Float, Device::Cpu)? {
                let batch = batch?;
                let loss =
                    net.forward(&batch["x"].unsqueeze(1)).mse_loss(&batch["y"].unsqueeze(1), Reduction::Mean);
                adam.zero_grad();
                loss.backward();
                worker.average_gradients(&model)?;
                adam.step();
                losses.push(loss.double_value(&[]) as f32);
            }
            let mut loss = [losses.iter().sum::<f32>() / losses.len() as f32];
            worker.collective().all_reduce(&mut loss, ReduceOp::Mean)?;
            let files = tempfile::tempdir().map_err(Error::other)?;
            model.save(files.path().join("model.safetensors")).map_err(Error::other)?;
            let saved = (worker.get_world_rank() == 0).then(|| Checkpoint::from_directory(files.path()));
            session::report(json!({"loss": loss[0], "workers": worker.get_world_size()}), saved)?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let rows = (0..512).map(|i| f64::from(i) / 256.0 - 1.0).map(|x| json!({"x": x, "y": (3.0 * x).sin()}));
    let training = TorchTrainer::new(Sine { lr: 1e-2, epochs: 20, batch_size_per_worker: 32 })
        .training()
        .scaling_config(ScalingConfig::workers(2))
        .total_resources([("CPU".to_string(), 3.0)].into())
        .datasets([("train", Dataset::from_items(rows)?.random_shuffle(0))]);
    // In a worker's process this trains and does not return.
    child_main(&[&training.as_trainable()?]);
    let result = training.fit()?;
    for row in result.history()? {
        let loss = row["loss"].as_f64().unwrap_or(f64::NAN);
        println!("epoch {:>2}: loss {loss:.5}, {} workers", row["training_iteration"], row["workers"]);
    }
    println!("the weights: {:?}", result.checkpoint);
    Ok(())
}
