//! Environments with several agents: rows by agent and turn, policies of their own, episodes, checkpoints.

mod learning;
mod noise;
mod rows;
mod turns;
