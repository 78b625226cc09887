//! A whole training run: the trait that an algorithm implements, and the methods that users call.

mod acting;
mod algorithm;
mod builder;
mod by_hand;
mod checkpoint_settings;
mod code;
mod episode_window;
mod evaluation;
mod gif;
mod loading;
mod memory;
mod notices;
mod parts;
mod policies;
mod policy_changes;
mod resolve;
mod restoring;
mod results;
mod saved_code;
mod trainer;
mod training;

pub use acting::Snapshot;
pub use algorithm::Algorithm;
pub use builder::{Builder, TrainerExt};
pub use gif::write_gif;
pub use loading::{load_session, load_session_with};
pub use memory::Memory;
pub use notices::{Ending, notices, refuse_illegal_moves, refuse_large_image_in_parts};
pub use policies::policies_of;
pub use resolve::{overlay_known, overlay_what_fits, resolve, to_config, validate};
pub use trainer::Trainer;
pub use training::Run;
