//! Ctrl-C and SIGTERM: the first one asks, the second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::output::say;

/// What one run says to the first signal.
pub(super) const AFTER_ITERATION: &str =
    "stopping after this iteration, with a checkpoint; Ctrl-C again quits at once";

/// As shells expect of a process that Ctrl-C ended.
const QUIT: i32 = 130;

unsafe extern "C" {
    /// POSIX: ends the process without destructors. Those of libtorch would take away what the trainer is still using.
    safe fn _exit(status: i32) -> !;
}

/// From now on the first signal is answered with `answer` and only makes the flag true.
pub(super) fn watch(answer: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let flag = asked.clone();
    ctrlc::set_handler(move || match flag.swap(true, Ordering::Relaxed) {
        false => say(answer),
        true => _exit(QUIT),
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(asked)
}
