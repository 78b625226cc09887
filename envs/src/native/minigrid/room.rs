//! A room of the grid, before it is drawn.

use super::grid::Pos;

/// A rectangular room with walls around it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) top: Pos,
    pub(super) size: Pos,
    /// Possible door in each wall (right, down, left, up); `None` at the edge of the grid. Rooms of a chain use only
    /// the first one, for their entry.
    pub(super) doors: [Option<Pos>; 4],
    /// Whether each wall has an opening.
    pub(super) open: [bool; 4],
    pub(super) locked: bool,
}

impl Room {
    pub(super) fn new(top: Pos, size: Pos, entry: Pos) -> Self {
        Self { top, size, doors: [Some(entry), None, None, None], ..Self::default() }
    }
}
