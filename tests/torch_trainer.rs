//! Workers that train one network of libtorch. Each training runs in a process of its own, because workers are this
//! binary started once more.

use std::fs;
use std::path::Path;
use std::process::Command;

use pavlov::data::{Dataset, IterBatches};
use pavlov::torch::nn::{self, Module, OptimizerConfig, VarStore};
use pavlov::torch::{Device, Kind, Reduction, Tensor, manual_seed};
use pavlov::train::{BaseTrainer, ReduceOp, ScalingConfig, TrainLoop, WorkerContext};
use pavlov::tune::{Bundle, Error, Result, RunConfig, child_main, session};
use pavlov::{DatasetExt, TorchTrainer, TorchWorker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Fits `sin` with eight hidden units.
#[derive(Serialize, Deserialize)]
struct Sine {
    epochs: usize,
    /// Rows of all workers together.
    batch_size: usize,
    kind: String,
}

impl TrainLoop for Sine {
    fn train_loop_per_worker(&mut self, worker: &WorkerContext) -> Result<()> {
        let rank = worker.get_world_rank();
        let world = worker.get_world_size();
        // Other initial weights in each worker, until they are given those of worker 0.
        manual_seed(rank as i64);
        let mut model = VarStore::new(Device::Cpu);
        let net = nn::seq()
            .add(nn::linear(model.root(), 1, 8, Default::default()))
            .add_fn(Tensor::tanh)
            .add(nn::linear(model.root(), 8, 1, Default::default()));
        let mut sgd = nn::Sgd::default().build(&model, 0.1).map_err(Error::other)?;
        if self.kind == "double" {
            model.double();
        }
        worker.prepare_model(&model)?;
        let options = IterBatches { batch_size: self.batch_size / world, ..IterBatches::default() };
        for _ in 0..self.epochs {
            let mut losses = [0.0];
            let shard = worker.get_dataset_shard("train")?;
            for batch in shard.iter_torch_batches(options.clone(), Kind::Float, Device::Cpu)? {
                let batch = batch?;
                let x = batch["x"].unsqueeze(1);
                let y = batch["y"].unsqueeze(1);
                let loss = net.forward(&x).mse_loss(&y, Reduction::Mean);
                sgd.zero_grad();
                loss.backward();
                worker.average_gradients(&model)?;
                sgd.step();
                losses = [loss.double_value(&[]) as f32];
                worker.collective().all_reduce(&mut losses, ReduceOp::Mean)?;
            }
            let weights: Vec<Tensor> = model.trainable_variables().iter().map(|w| w.flatten(0, -1)).collect();
            let weights = Vec::<f32>::try_from(Tensor::cat(&weights, 0)).map_err(Error::other)?;
            let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
            let all = worker.collective().all_gather(&bytes)?;
            let equal = all.iter().all(|other| *other == bytes);
            session::report(json!({"loss": losses[0], "weights": weights, "equal": equal}), None)?;
        }
        Ok(())
    }
}

#[test]
#[ignore = "run by another test"]
fn child_fit() {
    let home = std::env::var("PAVLOV_TEST_HOME").expect("run by another test");
    let plan = fs::read_to_string(Path::new(&home).join("plan.json")).expect("a plan");
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let rows = (0..48).map(|i| {
        let x = f64::from(i * 7 % 48) / 16.0 - 1.5;
        json!({"x": x, "y": x.sin()})
    });
    let kind = plan["kind"].as_str().unwrap_or_default().into();
    let training = TorchTrainer::new(Sine { epochs: 5, batch_size: 24, kind })
        .training()
        .scaling_config(serde_json::from_value::<ScalingConfig>(plan["scaling"].clone()).expect("a scaling"))
        .datasets([("train", Dataset::from_items(rows).expect("rows"))])
        .total_resources(Bundle::from([("CPU".into(), 8.0)]))
        .run_config(RunConfig { storage_path: Some(home.clone().into()), ..RunConfig::default() });
    child_main(&[&training.as_trainable().expect("a trainable")]);
    let outcome = match training.fit() {
        Ok(result) => json!(result.metrics),
        Err(error) => json!({"error": error.to_string()}),
    };
    fs::write(Path::new(&home).join("outcome.json"), outcome.to_string()).expect("written");
}

fn fit(plan: &Value) -> Value {
    let home = tempfile::tempdir().expect("a directory");
    fs::write(home.path().join("plan.json"), plan.to_string()).expect("written");
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "--ignored", "--nocapture", "torch_trainer::child_fit"])
        .env("PAVLOV_TEST_HOME", home.path())
        .output()
        .expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome = fs::read_to_string(home.path().join("outcome.json")).expect("an outcome");
    serde_json::from_str(&outcome).expect("JSON")
}

#[test]
fn workers_train_one_network_as_one_worker_on_the_joined_batch() {
    let alone = fit(&json!({"scaling": {}}));
    let numbers = |outcome: &Value| -> Vec<f64> {
        let weights = outcome["weights"].as_array().unwrap_or_else(|| panic!("{outcome}"));
        weights.iter().chain([&outcome["loss"]]).map(|number| number.as_f64().expect("a number")).collect()
    };
    // In each of 10 steps a gradient is a mean of 24 terms below 8 in another order: it differs by at most 2 * 23 * 2^-24
    // * 8 = 2.2e-5, and lr = 0.1 of that enters the weights. The loss moves by less than eight times what they do.
    let bound = 8.0 * 10.0 * 0.1 * 2.2e-5;
    for workers in [2, 3] {
        let together = fit(&json!({"scaling": {"num_workers": workers}}));
        assert_eq!(together["equal"], true, "to the bit in all workers");
        for (one, all) in numbers(&alone).iter().zip(numbers(&together)) {
            assert!((one - all).abs() <= bound, "{workers} workers: {one} and {all}");
        }
    }
}

#[test]
fn a_model_that_workers_cannot_exchange_is_refused_where_there_are_others() {
    let outcome = fit(&json!({"scaling": {"num_workers": 2}, "kind": "double"}));
    let message = outcome["error"].as_str().unwrap_or_else(|| panic!("{outcome}"));
    assert!(
        message.contains("`model` is a tensor of Double on Cpu, but workers exchange 32-bit floats"),
        "{message}"
    );
}
