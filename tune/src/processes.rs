//! Worker processes of trainables: rollout workers, and groups of data-parallel workers. Programs that run sweeps do not
//! need this module; the connections below it are in the crate `pavlov-processes`.
//!
//! The items of this module may change in any version.

pub use crate::executor::{
    RolloutProcess, WorkerGroup, WorkerGroupSetup, WorkerPlace, experiment_of_trial, rollout_command,
    rollout_main,
};
