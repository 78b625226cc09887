//! Environments with several agents: rows by agent and turn, policies of their own, episodes, checkpoints.

mod handles;
mod learning;
mod replay;
mod rows;
mod settings;
mod state;
mod turns;
