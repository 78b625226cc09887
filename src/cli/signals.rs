//! Ctrl-C and SIGTERM: the first signal asks the run to stop, the second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::output::say;

/// Message of a run after the first signal.
pub(super) const AFTER_ITERATION: &str =
    "stopping after this iteration, with a checkpoint; Ctrl-C again quits at once";

/// Exit code that shells expect of a process that Ctrl-C ended.
const QUIT: i32 = 130;

unsafe extern "C" {
    /// Ends the process without destructors (POSIX). Destructors of libtorch would free memory that the trainer still uses.
    safe fn _exit(status: i32) -> !;
}

/// Handles signals from now on: the first one prints `answer` and sets the returned flag, the second one ends the process.
pub(super) fn watch(answer: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let flag = asked.clone();
    ctrlc::set_handler(move || if flag.swap(true, Ordering::Relaxed) { _exit(QUIT) } else { say(answer) })
        .context("cannot listen for Ctrl-C")?;
    Ok(asked)
}
