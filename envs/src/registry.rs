//! From an id, a closure and settings to copies of an environment.

pub(crate) mod common_settings;
pub(crate) mod creator;
pub(crate) mod env_config;
pub(crate) mod ids;
pub(crate) mod nearest;
pub(crate) mod spec;
