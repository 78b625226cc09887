//! Worker processes, for crates that start their own workers: children of this program on this machine or on a Ray cluster,
//! groups of workers, and the connections between them. Programs that run sweeps do not need this module.
//!
//! The items of this module may change in any version.

pub use crate::executor::{
    Body, ChildCommand, RayActor, RayEngine, RolloutProcess, Secret, WorkerGroup, WorkerGroupSetup,
    WorkerPlace, experiment_of_trial, listen, listen_here, meet, panic_text, rollout_command, rollout_main,
    set_child_command,
};
pub use crate::held_folder::HeldFolder;
