//! Ctrl-C and SIGTERM: the first one asks, the second one ends the process.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;

use super::output::say;

static ASKED: AtomicUsize = AtomicUsize::new(0);

/// As shells expect of a process that Ctrl-C ended.
const QUIT: i32 = 130;

unsafe extern "C" {
    /// POSIX: ends the process without destructors. Those of libtorch would take away what the trainer is still using.
    safe fn _exit(status: i32) -> !;
}

/// From now on the first signal only makes [`asked_to_stop`] true.
pub(super) fn watch() -> anyhow::Result<()> {
    ctrlc::set_handler(|| match ASKED.fetch_add(1, Ordering::Relaxed) {
        0 => say("stopping after this iteration, with a checkpoint; Ctrl-C again quits at once"),
        _ => _exit(QUIT),
    })
    .context("cannot listen for Ctrl-C")
}

/// Whether a signal came.
pub(super) fn asked_to_stop() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}
