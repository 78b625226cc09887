//! Actors as processes.
pub(crate) struct ProcessExecutor;
/// x
pub fn child_main() {}
