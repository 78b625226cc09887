//! Sampled experience of every policy.

mod train_batch;

pub use train_batch::{Source, TrainBatch};
