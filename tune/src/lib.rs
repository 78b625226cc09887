//! The trainable lifecycle: train step by step, stop, save, and continue as if never stopped.
//!
//! * [`Trainable`] is what an author writes: `setup`, `step`, `save_checkpoint`, `load_checkpoint`.
//! * [`Driver`] is what a caller gets around any of them: `train`, `save`, `restore`, `reset`, `stop`, the fields that
//!   every result has, and the run directory.
//! * [`checkpoint`]s are there whole or not at all, and a damaged one is refused before anything is loaded.
//! * [`config`] lays settings over defaults, remembers where each came from, and refuses unknown ones.
//! * [`loggers`] write `result.json`, `progress.csv`, TensorBoard events and `params.json`.
//! * [`Tuner`] runs a sweep: many trials of a [`TrainableFactory`], drawn by [`search`], scheduled by [`schedulers`], stopped
//!   by [`stoppers`]; in threads or processes, restored after any interruption.
//! * [`session`] is for functions as trainables.
//! * [`validate_save_restore`] checks a trainable's part of the bargain.
//!
//! Settings and results are JSON objects, so that they can be laid over each other, logged, and read from anywhere.
//! Names are those of Ray Tune. Nothing here knows reinforcement learning or libtorch. It runs on Unix systems.

pub mod checkpoint;
pub mod config;
mod diagnose;
mod driver;
mod error;
mod executor;
mod export;
mod factory;
mod files;
mod function;
mod gpu;
mod held_folder;
#[doc(hidden)]
pub mod internal;
mod limit;
pub mod loggers;
mod metric;
mod named;
mod node;
mod options;
mod resources;
mod rng;
mod run_log;
pub mod schedulers;
pub mod search;
pub mod session;
pub mod stoppers;
pub mod storage;
mod sweep_file;
pub mod track;
mod trainable;
mod trial;
mod tuner;
mod validate;
mod worker_transport;

pub use diagnose::diagnose_serialization;
pub use driver::{Driver, DurableTrainable};
pub use error::{Error, Result, in_words};
pub use executor::child_main;
pub use export::ExportFormat;
pub use factory::TrainableFactory;
pub use files::{LARGEST_FILE, read_file, replace_file, write_file};
pub use function::IntoReport;
pub use gpu::wait_for_gpu;
pub use metric::Objective;
pub use node::available_memory;
pub use options::{LoggerChoice, RunOptions};
pub use resources::{Bundle, Resources};
pub use sweep_file::SweepFile;
pub use trainable::{Trainable, TrialContext};
pub use trial::{Mode, Trial, TrialStatus};
pub use tuner::{
    Callback, CheckpointConfig, ExecutorKind, FailFast, FailureConfig, Restore, ResultGrid, RunConfig, Scope,
    Standings, TrialResult, TuneConfig, Tuner,
};
pub use validate::{difference, validate_save_restore};
pub use worker_transport::{PlacementStrategy, WorkerTransport, Workers};

/// Settings as a JSON object.
pub type Config = serde_json::Map<String, serde_json::Value>;

/// One result as a JSON object, nested where that helps.
///
/// A number that does not exist yet is `null`; there is no NaN.
pub type Metrics = serde_json::Map<String, serde_json::Value>;

/// The programs of the README, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
