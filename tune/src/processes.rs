//! Other processes of a run, for crates that start workers of their own: children of this program on this machine or on
//! a Ray cluster, groups of workers, and how they find each other. A sweep needs none of it.
//!
//! What is here may change in any version.

pub use crate::executor::{
    Body, ChildCommand, RayActor, RayEngine, RolloutProcess, Secret, WorkerGroup, WorkerGroupSetup,
    WorkerPlace, experiment_of_trial, listen, listen_here, meet, panic_text, rollout_command, rollout_main,
};
pub use crate::held_folder::HeldFolder;
