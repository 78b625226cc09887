//! Processes that were forked: the threads of a run do not survive a fork, so a call in the child would wait for ever.

use std::sync::OnceLock;

use crate::fault::{Fault, Result};

/// The process that made the first run.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// Refuses to work in a process that was forked from the one that made the first run; that process is this one if there is
/// none yet.
pub(crate) fn refuse_after_fork() -> Result<()> {
    if is_forked() {
        return Err(Fault::forked(
            "this process was forked from one that had made a model, and threads do not survive a fork; start processes by \
             `multiprocessing.get_context(\"spawn\")`, or make the first model after the fork",
        ));
    }
    Ok(())
}

/// Whether this process was forked from the one that made the first run.
pub(crate) fn is_forked() -> bool {
    *PROCESS.get_or_init(std::process::id) != std::process::id()
}
