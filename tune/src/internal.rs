//! What the other crates of pavlov stand on beside the public items. It may change in any version.

pub use crate::executor::{
    Body, ChildCommand, RayActor, RayEngine, RolloutProcess, Secret, WorkerGroup, WorkerGroupSetup,
    WorkerPlace, experiment_of_trial, listen, listen_here, meet, panic_text, rollout_command, rollout_main,
};
pub use crate::function::Function;
pub use crate::held_folder::HeldFolder;
pub use crate::rng::stream;
pub use crate::trainable::short_name;
pub use crate::tuner::ExperimentFile;
