//! Agents, their mapping to policies, and which policies learn.

mod agent;
mod edit;
mod env_info;
mod mapping;
mod policies;
mod policy_assignment;

pub use agent::Agent;
pub use edit::PolicyChange;
pub(crate) use edit::PolicyEdit;
pub use env_info::EnvInfo;
pub(crate) use env_info::{flat_image, say_out_of_bounds, too_wide};
pub use mapping::register_policy_mapping_fn;
pub(crate) use policies::EVALUATED_BY;
pub use policies::Policies;
pub(crate) use policy_assignment::PolicyAssignment;
