//! Translates settings of other libraries, and reports what became of each.

mod python;
mod rllib;
mod translation;
mod zoo;

pub(super) use self::rllib::from_rllib;
pub(super) use self::zoo::from_sb3;
