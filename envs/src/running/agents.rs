//! Environments around one of several agents: a limit on steps, groups, and the state of all agents.

mod global_state;
mod groups;
mod time_limit;

pub(crate) use global_state::GlobalState;
pub(crate) use groups::Grouped;
pub(crate) use time_limit::TimeLimit;
