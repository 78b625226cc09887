//! Gymnasium's environments on Box2D, and the part of that engine which they need.

mod bipedal_walker;
mod engine;
mod lunar_lander;

pub use bipedal_walker::{BipedalWalker, BipedalWalkerConfig};
pub use engine::BodyState;
pub use lunar_lander::{LunarLander, LunarLanderAction, LunarLanderConfig};

use super::entry::Entry;

/// Returns the registry entries of the environments on Box2D.
pub(super) fn entries() -> Vec<Entry> {
    let mut entries = lunar_lander::entries();
    entries.extend(bipedal_walker::entries());
    entries
}
