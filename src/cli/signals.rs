//! Ctrl-C and SIGTERM: the first signal asks the run to stop, the second one ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Context;

use super::output::say;
use super::terminal;

/// Message of a run after the first signal.
pub(super) const AFTER_ITERATION: &str =
    "stopping after this iteration, with a checkpoint; Ctrl-C again quits at once";

/// Exit code that shells expect of a process that Ctrl-C ended.
const QUIT: i32 = 130;

unsafe extern "C" {
    /// Ends the process without destructors (POSIX). Destructors of libtorch would free memory that the trainer still uses.
    safe fn _exit(status: i32) -> !;

    /// Sets what a signal does (POSIX), here to [`IGNORE`].
    safe fn signal(number: i32, action: usize) -> usize;
}

/// Number of the signal that the kernel sends at a write beyond `ulimit -f`, on Linux and macOS.
const SIGXFSZ: i32 = 25;
/// `SIG_IGN`: the signal does nothing.
const IGNORE: usize = 1;

/// Has a write beyond the limit on the size of files (`ulimit -f`) fail as a write to a full disk does, so that the run says
/// so. By default a signal ends the process without a word.
pub(super) fn ignore_file_size_limit() {
    signal(SIGXFSZ, IGNORE);
}

/// What a signal does.
struct Watch {
    asked: Arc<AtomicBool>,
    answer: &'static str,
}

/// What a signal does since [`watch`] was called.
static WATCH: OnceLock<Watch> = OnceLock::new();

/// Handles signals from now on: the first one prints `answer` and sets the returned flag, the second one ends the process.
pub(super) fn watch(answer: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    // A process watches for signals once: the second handler is refused below.
    WATCH.get_or_init(|| Watch { asked: asked.clone(), answer });
    ctrlc::set_handler(press).context("cannot listen for Ctrl-C")?;
    Ok(asked)
}

/// Does what a signal does. On a screen, Ctrl-C is a key and sends none.
pub(super) fn press() {
    let Some(Watch { asked, answer }) = WATCH.get() else { return };
    if !asked.swap(true, Ordering::Relaxed) {
        say(answer);
        return;
    }
    terminal::give_back();
    _exit(QUIT)
}
