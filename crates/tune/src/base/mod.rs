//! The lowest room: errors, files, settings, results, trials and their resources, random streams, the machine.

pub mod config;
pub(crate) mod error;
mod error_names;
pub(crate) mod files;
pub(crate) mod gpu;
pub(crate) mod limit;
pub(crate) mod metric;
mod metrics;
pub(crate) mod named;
pub(crate) mod node;
mod number;
mod resources;
pub mod rng;
mod settings;
mod trial;

pub(crate) use error::NO_TRIAL;
pub use error::{Error, Result, in_words};
pub use files::{LARGEST_FILE, read_file, replace_file, write_file, write_output, write_whole};
pub use metric::Objective;
pub use metrics::{Metrics, flatten};
pub use number::{Count, Number};
pub use pavlov_processes::{Bundle, PlacementStrategy};
pub use resources::Resources;
pub use settings::Config;
pub use trial::{Mode, Trial, TrialStatus};
