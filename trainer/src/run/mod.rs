//! A whole training run: what an algorithm's author writes, what users call, and the settings that all algorithms share.

pub(crate) mod algorithm;
mod batch_arithmetic;
pub(crate) mod builder;
mod cluster_rules;
pub(crate) mod common;
pub(crate) mod gif;
pub(crate) mod league;
pub(crate) mod loading;
pub(crate) mod memory;
pub(crate) mod multi_agent;
pub(crate) mod policies_of;
mod policy_changes;
pub(crate) mod policy_edit;
pub(crate) mod policy_mapping;
pub(crate) mod recipe;
pub(crate) mod refused_keys;
mod restoring;
pub(crate) mod settings;
pub(crate) mod synonyms;
pub(crate) mod trainer;
pub(crate) mod training;
