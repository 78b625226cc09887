//! Text for terminals, in Gymnasium's format.

use super::table::Walk;

// Select graphic rendition codes (ECMA-48, 8.3.117); `ON_*` are background colours.
pub(super) const BOLD_BLUE: &str = "34;1";
pub(super) const MAGENTA: &str = "35";
pub(super) const ON_RED: &str = "41";
pub(super) const ON_GREEN: &str = "42";
pub(super) const ON_YELLOW: &str = "43";

pub(super) fn colorize(text: &str, code: &str) -> String {
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Returns the line that names the last action; without a name after a reset.
pub(super) fn last_action(walk: &Walk, names: &[&str]) -> String {
    walk.last_action.and_then(|action| names.get(action)).map_or("\n".into(), |name| format!("  ({name})\n"))
}
