//! A room, before it is drawn into a grid.

use super::grid::Pos;

/// A rectangle with walls around it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) top: Pos,
    pub(super) size: Pos,
    /// Where a door may be: right, down, left and up; `None` at the edge of the grid. Rooms in a row use the first only: where
    /// one comes in.
    pub(super) doors: [Option<Pos>; 4],
    /// Where there is a way out.
    pub(super) open: [bool; 4],
    pub(super) locked: bool,
}

impl Room {
    pub(super) fn new(top: Pos, size: Pos, entry: Pos) -> Self {
        Self { top, size, doors: [Some(entry), None, None, None], ..Self::default() }
    }
}
