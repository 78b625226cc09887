//! What `pavlov-data` and `pavlov-train` stand on beside the public items. It may change in any version.

pub use crate::executor::{WorkerGroup, WorkerGroupSetup, panic_text};
pub use crate::function::Function;
pub use crate::rng::stream;
pub use crate::trainable::short_name;
pub use crate::tuner::ExperimentFile;
