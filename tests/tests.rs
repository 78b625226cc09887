//! The integration tests of pavlov: one binary, one module per subject.

mod checkpoints;
#[cfg(feature = "cli")]
mod cli;
mod export;
mod golden;
mod layers;
mod regression;
mod results;
mod resume;
mod sampling;
mod settings;
mod support;
#[cfg(feature = "cli")]
mod sweeps;
mod torch_trainer;
