//! The integration tests of pavlov: one binary, one module per subject.

mod admitted;
mod agents;
mod c_file;
mod checkpoints;
#[cfg(feature = "cli")]
mod cli;
mod datasets;
mod errors;
mod export;
#[cfg(feature = "serve")]
mod external;
mod goals;
mod golden;
mod images;
mod layers;
mod learners;
mod links;
mod loaded;
mod onnx;
mod own_loops;
mod own_networks;
mod packs;
mod pages;
mod plans;
mod ppo_from_scratch;
mod processes;
mod ray;
mod reading;
mod regression;
mod results;
mod resume;
mod sampling;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "storage")]
#[path = "../crates/storage/tests/server.rs"]
#[expect(dead_code, reason = "what the tests of the crate need besides")]
mod server;
mod settings;
mod support;
mod tch_modules;
mod torch_trainer;
mod wire;
