//! A whole training run: what an algorithm's author writes, what users call, and the settings that all algorithms share.

mod algorithm;
mod batch_arithmetic;
mod builder;
mod cluster_rules;
mod common;
mod gif;
mod league;
mod loading;
mod memory;
mod multi_agent;
mod policies_of;
mod policy_changes;
mod policy_edit;
mod policy_mapping;
mod recipe;
mod refused_keys;
mod restoring;
mod settings;
mod synonyms;
mod trainer;
mod training;

pub use algorithm::Algorithm;
pub use builder::{Builder, TrainerExt};
pub use common::{
    BatchMode, ClipRewards, Common, DurationUnit, EvaluationConfig, EvaluationDuration, OPEN_KEYS,
};
pub use gif::write_gif;
pub use league::{League, LeagueConfig};
pub use loading::load_session;
pub use memory::Memory;
pub use multi_agent::{CountStepsBy, MultiAgentConfig, ObservationFn, ReplayMode};
pub use policies_of::policies_of;
pub use policy_edit::PolicyChange;
pub(crate) use policy_edit::PolicyEdit;
pub use policy_mapping::{PolicyMapping, register_policy_mapping_fn};
pub use settings::{overlay_known, overlay_what_fits, resolve, to_config, validate};
pub use synonyms::{synonym, translate};
pub use trainer::Trainer;
pub use training::Run;
