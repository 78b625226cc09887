//! One network trained by two workers, each a process with half of the rows: the gradients are averaged at every step, so
//! that both have the same weights. Run it with `cargo run --example torch_trainer`.

use pavlov::prelude::*;
use pavlov::torch::nn::{self, Module, OptimizerConfig, VarStore};
use pavlov::torch::{Device, Reduction, Tensor};
use pavlov::tune::data::{Block, Dataset, IterBatches};
use pavlov::tune::{BaseTrainer, Error, ReduceOp, Result, ScalingConfig, child_main, session};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Serialize, Deserialize)]
struct Sine {
    lr: f64,
    epochs: usize,
}

fn column(batch: &Block, name: &str) -> Result<Tensor> {
    let values: Vec<f32> = batch.float(name)?.iter().map(|value| *value as f32).collect();
    Ok(Tensor::from_slice(&values).view([-1, 1]))
}

impl TrainLoop for Sine {
    fn train_loop_per_worker(&mut self, worker: &WorkerContext) -> Result<()> {
        let model = VarStore::new(Device::Cpu);
        let net = nn::seq()
            .add(nn::linear(model.root(), 1, 32, Default::default()))
            .add_fn(Tensor::tanh)
            .add(nn::linear(model.root(), 32, 1, Default::default()));
        let mut adam = nn::Adam::default().build(&model, self.lr).map_err(Error::other)?;
        worker.prepare_model(&model)?;
        for _ in 0..self.epochs {
            let options = IterBatches { batch_size: 32, ..IterBatches::default() };
            let mut losses = vec![];
            for batch in worker.get_dataset_shard("train")?.iter_batches(options)? {
                let batch = batch?;
                let loss =
                    net.forward(&column(&batch, "x")?).mse_loss(&column(&batch, "y")?, Reduction::Mean);
                adam.zero_grad();
                loss.backward();
                worker.average_gradients(&model)?;
                adam.step();
                losses.push(loss.double_value(&[]) as f32);
            }
            let mut loss = [losses.iter().sum::<f32>() / losses.len() as f32];
            worker.collective().all_reduce(&mut loss, ReduceOp::Mean)?;
            session::report(json!({"loss": loss[0], "workers": worker.get_world_size()}), None)?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let rows = (0..512).map(|i| f64::from(i) / 256.0 - 1.0).map(|x| json!({"x": x, "y": (3.0 * x).sin()}));
    let training = TorchTrainer::new(Sine { lr: 1e-2, epochs: 20 })
        .training()
        .scaling_config(ScalingConfig::workers(2))
        .total_resources([("CPU".to_string(), 3.0)].into())
        .datasets([("train", Dataset::from_items(rows)?.random_shuffle(0))]);
    child_main(&[&training.as_trainable()?]);
    let result = training.fit()?;
    for epoch in result.history()? {
        println!(
            "epoch {:>2}: loss {:.5}, {} workers",
            epoch["training_iteration"], epoch["loss"], epoch["workers"]
        );
    }
    println!("TensorBoard: {}", result.path.display());
    Ok(())
}
