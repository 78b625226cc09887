//! Environments with several agents: rows by agent and turn, policies of their own, episodes, checkpoints.

pub(crate) mod changes;
mod evaluation;
mod filters;
mod handles;
mod league;
mod learning;
mod masks;
mod noise;
mod replay;
mod rows;
mod settings;
mod state;
mod teams;
mod turns;
