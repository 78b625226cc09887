//! Warnings that a user must see although nothing failed.

use pavlov_learn::base::lock;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Sends a warning to the program's `tracing` subscriber, or to standard error if none is set.
pub fn notice(text: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{text}");
    } else {
        // If standard error is closed, there is no place left to report that.
        drop(writeln!(std::io::stderr(), "pavlov: {text}"));
    }
}

/// Sends a warning to the program's `tracing` subscriber: once per program, however many workers give it.
pub(crate) fn notice_once(text: &'static str) {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if lock(&SAID).insert(text) {
        tracing::warn!("{text}");
    }
}

/// Does `work`, and warns while it lasts if it takes longer than `patience`.
pub(crate) fn notice_if_slow<T>(patience: Duration, text: &str, work: impl FnOnce() -> T) -> T {
    let (working, ended) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                notice(text);
            }
        });
        let done = work();
        drop(working);
        done
    })
}

/// Warns once that this program is slow because it was built without optimisation.
pub(crate) fn notice_unoptimised() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if let Some(text) = unoptimised(env!("PAVLOV_OPT_LEVEL")) {
        ONCE.call_once(|| notice(text));
    }
}

/// The warning about a build with this `opt-level`: for level 0, else `None`.
fn unoptimised(opt_level: &str) -> Option<&'static str> {
    (opt_level == "0").then_some(
        "pavlov was built without optimisation and trains many times slower: add `[profile.dev.package.\"*\"]` with \
         `opt-level = 2` to your Cargo.toml, or run with --release",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_build_without_optimisation_is_reported() {
        assert!(unoptimised("0").is_some_and(|text| text.contains("opt-level = 2")));
        assert_eq!(unoptimised("1"), None);
        assert_eq!(unoptimised("3"), None);
    }
}
