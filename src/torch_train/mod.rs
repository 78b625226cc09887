//! Training without reinforcement learning: datasets as tensors, and several workers that train one model.

mod data;
mod torch_trainer;

pub use data::{DatasetExt, Dtypes, TorchBatch, TorchBatches};
pub use torch_trainer::{TorchTrainer, TorchWorker};
