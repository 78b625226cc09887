//! The contents of one field of the grid.

use serde::{Deserialize, Serialize};

/// Kinds of objects, with MiniGrid's numbers.
pub(super) const WALL: u8 = 2;
pub(super) const DOOR: u8 = 4;
pub(super) const KEY: u8 = 5;
pub(super) const BALL: u8 = 6;
pub(super) const BOX: u8 = 7;
pub(super) const GOAL: u8 = 8;
pub(super) const LAVA: u8 = 9;
pub(super) const AGENT: u8 = 10;
const EMPTY: u8 = 1;
pub(super) const FLOOR: u8 = 3;
/// Number of kinds, including the unseen one.
pub(super) const KINDS: usize = 11;

/// Kinds of objects that tasks scatter in their rooms, in the order of MiniGrid's lists.
pub(super) const THINGS: [u8; 3] = [KEY, BALL, BOX];

/// Colours, with MiniGrid's numbers.
pub(super) const RED: u8 = 0;
pub(super) const GREEN: u8 = 1;
pub(super) const BLUE: u8 = 2;
pub(super) const YELLOW: u8 = 4;
pub(super) const GREY: u8 = 5;
/// Colours sorted by name, the order of random draws and of missions.
pub(super) const SORTED_COLORS: [u8; 6] = [BLUE, GREEN, GREY, 3, RED, YELLOW];
/// RGB values of the colours, by MiniGrid's numbers.
pub(super) const RGB: [[u8; 3]; 6] =
    [[255, 0, 0], [0, 255, 0], [0, 0, 255], [112, 39, 195], [255, 255, 0], [100, 100, 100]];

/// States of a door, with MiniGrid's numbers.
pub(super) const OPEN: u8 = 0;
pub(super) const CLOSED: u8 = 1;
pub(super) const LOCKED: u8 = 2;
/// Number of door states.
pub(super) const STATES: usize = 3;

/// Index of a colour in [`SORTED_COLORS`].
pub(super) fn rank(color: u8) -> usize {
    [4, 1, 0, 3, 5, 2][color as usize]
}

/// The contents of a field: the kind, colour and state of the observation in one byte each, and a hidden byte, which marks
/// the object of the task and holds the colour of a key in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
#[repr(transparent)]
pub(super) struct Cell(pub(super) u32);

/// Hidden bit that marks the object of the task.
const TARGET: u32 = 1 << 31;
/// Position of the bits that hold the colour of a key in a box, plus 1.
const CONTENT: u32 = 24;

impl Cell {
    pub(super) const UNSEEN: Self = Self(0);
    pub(super) const EMPTY: Self = Self::new(EMPTY, 0);
    pub(super) const WALL: Self = Self::new(WALL, GREY);
    pub(super) const GOAL: Self = Self::new(GOAL, GREEN);
    pub(super) const LAVA: Self = Self::new(LAVA, RED);

    pub(super) const fn new(kind: u8, color: u8) -> Self {
        Self(kind as u32 | (color as u32) << 8)
    }

    pub(super) const fn door(color: u8, state: u8) -> Self {
        Self(Self::new(DOOR, color).0 | (state as u32) << 16)
    }

    /// Creates a box with a key in it.
    pub(super) const fn box_with_key(color: u8, key: u8) -> Self {
        Self(Self::new(BOX, color).0 | (key as u32 + 1) << CONTENT)
    }

    /// Returns the same object, marked as the object of the task.
    #[must_use]
    pub(super) const fn target(self) -> Self {
        Self(self.0 | TARGET)
    }

    pub(super) const fn is_target(self) -> bool {
        self.0 & TARGET != 0
    }

    /// Returns kind, colour and state, as in observations.
    #[inline]
    pub(super) const fn encode(self) -> [u8; 3] {
        let [kind, color, state, _] = self.0.to_le_bytes();
        [kind, color, state]
    }

    pub(super) const fn kind(self) -> u8 {
        self.encode()[0]
    }

    pub(super) const fn color(self) -> u8 {
        self.encode()[1]
    }

    pub(super) const fn state(self) -> u8 {
        self.encode()[2]
    }

    pub(super) const fn is_empty(self) -> bool {
        self.kind() == EMPTY
    }

    pub(super) const fn is_open_door(self) -> bool {
        self.kind() == DOOR && self.state() == OPEN
    }

    /// Whether the agent can stand on the field.
    pub(super) const fn can_overlap(self) -> bool {
        matches!(self.kind(), EMPTY | FLOOR | GOAL | LAVA) || self.is_open_door()
    }

    pub(super) const fn can_pickup(self) -> bool {
        matches!(self.kind(), KEY | BALL | BOX)
    }

    /// Whether the field hides the fields behind it.
    #[inline]
    pub(super) const fn is_opaque(self) -> bool {
        self.kind() == WALL || (self.kind() == DOOR && self.state() != OPEN)
    }

    /// Returns the contents of the field after the agent toggled it while carrying `carrying`.
    pub(super) fn toggled(self, carrying: Option<Cell>) -> Self {
        match self.kind() {
            BOX => match self.0 >> CONTENT & 0x7f {
                0 => Self::EMPTY,
                key => Self::new(KEY, key as u8 - 1),
            },
            DOOR => {
                let fits = carrying.is_some_and(|it| it.kind() == KEY && it.color() == self.color());
                Self::door(
                    self.color(),
                    match self.state() {
                        LOCKED if !fits => LOCKED,
                        OPEN => CLOSED,
                        _ => OPEN,
                    },
                )
            }
            _ => self,
        }
    }
}

impl TryFrom<u32> for Cell {
    type Error = &'static str;

    /// Decodes a cell of a saved state.
    fn try_from(bits: u32) -> Result<Self, &'static str> {
        let cell = Self(bits);
        let content = bits >> CONTENT & 0x7f;
        let is_valid = (EMPTY..AGENT).contains(&cell.kind())
            && (cell.color() as usize) < RGB.len()
            && (cell.state() as usize) < STATES
            && (content == 0 || (cell.kind() == BOX && content as usize <= RGB.len()));
        if is_valid { Ok(cell) } else { Err("a field holds no object of MiniGrid") }
    }
}
