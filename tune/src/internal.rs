//! What the other crates of pavlov stand on beside the public items. It may change in any version.

pub use crate::executor::{
    Body, RayActor, RayEngine, RolloutCommand, RolloutProcess, WorkerGroup, WorkerGroupSetup, panic_text, rollout_main,
};
pub use crate::function::Function;
pub use crate::rng::stream;
pub use crate::trainable::short_name;
pub use crate::tuner::ExperimentFile;
