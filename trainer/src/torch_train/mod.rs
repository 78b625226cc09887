//! Training without reinforcement learning: datasets as tensors, and several workers that train one model.

pub(crate) mod data;
pub(crate) mod torch_trainer;
