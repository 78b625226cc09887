//! Text for terminals, as Gymnasium writes it.

use super::table::Walk;

// Select graphic rendition (ECMA-48, 8.3.117); `ON_` is the colour behind a letter.
pub(super) const BOLD_BLUE: &str = "34;1";
pub(super) const MAGENTA: &str = "35";
pub(super) const ON_RED: &str = "41";
pub(super) const ON_GREEN: &str = "42";
pub(super) const ON_YELLOW: &str = "43";

pub(super) fn colorize(text: &str, code: &str) -> String {
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// The line that says what was done last; empty after a reset.
pub(super) fn last_action(walk: &Walk, names: &[&str]) -> String {
    walk.last_action.and_then(|action| names.get(action)).map_or("\n".into(), |name| format!("  ({name})\n"))
}
